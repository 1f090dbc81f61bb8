"""What every room may use, and what uses none of them: hooks of imports and forks, texts, figures of use."""
