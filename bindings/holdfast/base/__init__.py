"""What every room may use: it needs none of them."""
