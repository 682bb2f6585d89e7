"""Commands about people: teams."""
