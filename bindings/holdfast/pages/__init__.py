"""The page of a view, and its still picture. These modules only draw: they don't know who measured the data."""
