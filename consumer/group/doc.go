// Package group is a member of a Kafka consumer group.
//
// kafka-go's ConsumerGroup cannot be a static member, so Member speaks the group's protocol
// itself. DESIGN.md says how.
//
// Files: member.go a membership and its life; generation.go what the group gives it, and for how
// long; join.go how a member joins and sends heartbeats, and its requests; assign.go who gets which
// partitions; settings.go members that work under other settings; protocol.go what members say to
// each other.
package group
