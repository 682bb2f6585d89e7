"""Named statements on partitions of assets."""
