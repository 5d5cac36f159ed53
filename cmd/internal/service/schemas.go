package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/registry"
)

// awaitSchemas returns the numbers of the schemas in the registry, if records carry them. It waits
// for a registry that does not answer, and the log names it.
func awaitSchemas(ctx context.Context, o Options) (schemas.IDs, error) {
	if o.SanitizedEncoding != schemas.AvroRegistry {
		return schemas.IDs{}, nil
	}
	var ids [2]uint32
	for i, schema := range checks.Schemas(o.Cluster) {
		var found registry.Registered
		err := until(ctx, func() (err error) {
			found, err = schemaID(ctx, o, schema)
			return err
		}, registry.IsAway, func(cause error, wait time.Duration) {
			o.Logger.Warn("waiting for the schema registry", "cause", cause, "next_look_in", wait)
		})
		if err != nil {
			return schemas.IDs{}, err
		}
		ids[i] = found.ID
		o.Logger.Info("found the schema in the registry", "subject", schema.Subject, "id",
			found.ID, "version", found.Version)
	}
	if o.Topics.NoDeadLetters {
		return schemas.IDs{Counts: ids[0]}, nil
	}
	return schemas.IDs{Sanitized: ids[0], DeadLetter: ids[1]}, nil
}

// schemaID looks a schema up, and registers one that is missing.
func schemaID(ctx context.Context, o Options, schema checks.Schema) (registry.Registered, error) {
	found, err := o.Registry.Find(ctx, schema.Subject, schema.Text)
	if !errors.Is(err, registry.ErrMissing) {
		return found, err
	}
	found, err = o.Registry.Register(ctx, schema.Subject, schema.Text)
	if refused, ok := errors.AsType[*registry.Error](err); ok && (refused.Status ==
		http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
		err = fmt.Errorf("%w (schemas-missing)", err)
	}
	return found, err
}
