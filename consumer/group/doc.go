// Package group is a member of a Kafka consumer group.
//
// kafka-go's ConsumerGroup cannot be a static member, so Member speaks the group's protocol
// itself. DESIGN.md says how.
//
// Files: group.go, generation.go a membership and what it gives; member.go its life; join.go how
// a member joins and gives signs of life; assign.go who gets which partitions; settings.go
// members that work under other settings; protocol.go, messages.go what members and coordinator
// say.
package group
