"""Commands about people: what they did, and their teams."""
