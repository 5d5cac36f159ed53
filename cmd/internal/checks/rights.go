package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
)

// rightsChecks are those of what this client may do.
func rightsChecks() []Check {
	return []Check{
		{"rights", "the brokers", each, needsBrokers, (*examination).rights},
	}
}

// rights looks whether this client has the rights that "geodither topics acls" prints. It changes
// nothing, and what the brokers do not tell is no failure.
func (d *examination) rights(ctx context.Context) {
	var unknown []string
	denied := false
	for _, acl := range d.o.ACLs() {
		resource, lacking, err := d.lacking(ctx, acl)
		switch {
		case len(lacking) > 0:
			denied = true
			d.add(Failure, "this client may not %s %s: grant it; \"geodither topics acls\" "+
				"prints all the rights that %s needs", strings.Join(lacking, " or "), resource,
				d.command)
		case err != nil:
			unknown = append(unknown, fmt.Sprintf("%s (%v)", resource, err))
		}
	}
	defer d.wait(ctx)
	switch {
	case len(unknown) > 0:
		d.add(Unchecked, "doctor could not check this client's rights to %s",
			strings.Join(unknown, ", nor to "))
	case !denied:
		d.add(OK, "this client has every right that %s needs", d.command)
	}
}

// Why rights can be unknown.
var (
	errUntold  = errors.New("the broker does not tell them")
	errMissing = errors.New("it is missing")
)

// lacking returns which operations of an ACL this client is known not to be authorized for, and
// how a sentence names the resource. The error says why that could not be checked.
func (d *examination) lacking(ctx context.Context, acl topics.ACL) (
	resource string, lacking []string, err error,
) {
	var rights admin.Rights
	switch acl.Resource {
	case "Group":
		resource = "group " + acl.Name
		rights, err = admin.GroupRights(ctx, d.client, d.call, acl.Name)
	case "TransactionalId":
		return d.lackingIDs(ctx, acl)
	default:
		resource = "topic " + acl.Name
		rights, err = admin.TopicRights(ctx, d.client, d.call, acl.Name)
		var missing *admin.MissingTopicsError
		if errors.As(err, &missing) {
			return d.lackingCreate(ctx, acl, resource)
		}
	}
	if err == nil && !rights.Known() {
		err = errUntold
	}
	for _, operation := range acl.Operations {
		if rights.Denied(operation) && operation != "Create" { // it is there
			lacking = append(lacking, operation)
		}
	}
	return resource, lacking, err
}

// lackingCreate looks at a topic that is missing: whether this client may make it, where it has to.
func (d *examination) lackingCreate(ctx context.Context, acl topics.ACL, resource string) (
	_ string, lacking []string, err error,
) {
	if !slices.Contains(acl.Operations, "Create") {
		return resource, nil, errMissing
	}
	err = admin.TryCreate(ctx, d.client, d.call, admin.Topic{
		Name: acl.Name, Partitions: max(1, d.o.Topics.Partitions),
		Replication: d.o.Topics.Replication,
	})
	if errors.Is(err, kafka.TopicAuthorizationFailed) ||
		errors.Is(err, kafka.ClusterAuthorizationFailed) {
		return resource, []string{"Create"}, nil
	}
	return resource, nil, cmp.Or(err, errMissing)
}

// lackingIDs looks at the transactional ids, of which there is one for each partition. It tries one
// that no partition has, because a request with one that is at work could disturb its producer.
func (d *examination) lackingIDs(ctx context.Context, acl topics.ACL) (
	resource string, lacking []string, err error,
) {
	resource = "transactional ids that begin with " + acl.Name
	unused := strings.TrimSuffix(d.o.TransactionalID(0), "0") + "doctor"
	rights, err := admin.TransactionalRights(ctx, d.client, d.call, unused)
	if err != nil || !rights.Denied("Write") {
		return resource, nil, err
	}
	if rights.Denied("Describe") {
		// Somebody may have granted each id by its name.
		may, err := admin.MayDescribeTransactional(ctx, d.client, d.call, d.o.TransactionalID(0))
		switch {
		case err != nil:
			return resource, nil, err
		case may:
			return resource, nil, fmt.Errorf("%s is granted by itself, so others may be too",
				d.o.TransactionalID(0))
		}
	}
	return resource, []string{"Write"}, nil
}
