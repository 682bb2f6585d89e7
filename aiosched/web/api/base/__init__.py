"""What all resources share: models and paging."""
