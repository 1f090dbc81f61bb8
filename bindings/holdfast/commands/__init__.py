"""The commands of %holdfast."""
