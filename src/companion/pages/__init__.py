"""What a page shows, and the book that is made of pages."""
