"""What all of authoring uses: checks, dates, dependencies, params, source locations."""
