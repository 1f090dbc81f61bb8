"""The page that shows a view, and its picture: what is drawn, knowing nothing of who measured it."""
