"""The attempts that run here (tasks, triggers, callbacks, asset watchers) and their reports; they outlive sessions."""
