"""What all of authoring uses: checks, dates, arrows, params, where something was written, HTTP and mail."""
