"""HorizontalPodAutoscaler controller: replica counts from resource usage."""
