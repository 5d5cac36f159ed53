package checks

import (
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/registry"
)

// Schema is a schema of what a service publishes, and the subject that has to have it.
type Schema struct{ Subject, Text string }

// Schemas returns the schemas that a registry has to have for a service: of sanitized records, then
// of dead letters. A service without dead letters publishes counts.
func Schemas(c topics.Cluster) []Schema {
	t := c.WithDefaults().Topics
	if t.NoDeadLetters {
		return []Schema{{registry.Subject(t.Sanitized), schemas.CountsSchema()}}
	}
	return []Schema{
		{registry.Subject(t.Sanitized), schemas.SanitizedSchema()},
		{registry.Subject(t.DeadLetters), schemas.DeadLetterSchema()},
	}
}
