"""What people and programs read: tables, pages, findings."""
