"""What all resources share: models and pages."""
