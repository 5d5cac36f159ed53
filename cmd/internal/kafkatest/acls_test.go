//go:build kafka

package kafkatest

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/topics"
)

// login is the principal of kafka.sh's only user, and certificate that of its client's certificate.
const login, certificate = "User:geodither", "User:CN=client"

// grant creates ACLs for a principal, and waits until every broker goes by them.
func (h *harness) grant(principal string, acls []topics.ACL) {
	h.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, a := range acls {
		for _, operation := range a.Operations {
			resource, pattern, op := h.kinds(a, operation)
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.ResourcePatternType = resource, a.Name, pattern
			c.Principal, c.Host = principal, "*"
			c.Operation, c.PermissionType = op, kmsg.ACLPermissionTypeAllow
			req.Creations = append(req.Creations, c)
		}
	}
	answer, err := req.RequestWith(h.Context(), h.admin)
	h.ok(err)
	for _, r := range answer.Results {
		h.ok(kerr.ErrorForCode(r.ErrorCode))
	}
	for _, a := range acls {
		h.granted(principal, a)
	}
}

// revoke removes one operation of an ACL, and waits until every broker goes by that.
func (h *harness) revoke(principal string, a topics.ACL, operation string) {
	h.Helper()
	resource, pattern, op := h.kinds(a, operation)
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.ResourcePatternType = resource, pattern
	filter.ResourceName, filter.Principal = kmsg.StringPtr(a.Name), kmsg.StringPtr(principal)
	filter.Operation, filter.PermissionType = op, kmsg.ACLPermissionTypeAllow
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Filters = append(req.Filters, filter)
	answer, err := req.RequestWith(h.Context(), h.admin)
	h.ok(err)
	for _, r := range answer.Results {
		h.ok(kerr.ErrorForCode(r.ErrorCode))
		if len(r.MatchingACLs) != 1 {
			h.Fatalf("%s of %s %s: removed %d ACLs, want 1", operation, a.Resource, a.Name,
				len(r.MatchingACLs))
		}
	}
	a.Operations = slices.DeleteFunc(slices.Clone(a.Operations),
		func(o string) bool { return o == operation })
	h.granted(principal, a)
}

// granted waits until every broker has exactly the operations of an ACL for a principal.
func (h *harness) granted(principal string, a topics.ACL) {
	h.Helper()
	resource, pattern, _ := h.kinds(a, "Any")
	var want []kmsg.ACLOperation
	for _, operation := range a.Operations {
		_, _, op := h.kinds(a, operation)
		want = append(want, op)
	}
	slices.Sort(want)
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(h.Context(), h.admin)
	h.ok(err)
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = resource, pattern
	req.ResourceName, req.Principal = kmsg.StringPtr(a.Name), kmsg.StringPtr(principal)
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAllow
	for _, broker := range meta.Brokers {
		h.eventually(fmt.Sprintf("broker %d has the ACLs of %s", broker.NodeID, a.Name),
			func() bool {
				answer, err := req.RequestWith(h.Context(), h.admin.Broker(int(broker.NodeID)))
				h.ok(err)
				h.ok(kerr.ErrorForCode(answer.ErrorCode))
				have := []kmsg.ACLOperation(nil)
				for _, r := range answer.Resources {
					for _, found := range r.ACLs {
						have = append(have, found.Operation)
					}
				}
				slices.Sort(have)
				return slices.Equal(have, want)
			})
	}
}

// kinds are an ACL's parts as the protocol has them.
func (h *harness) kinds(a topics.ACL, operation string) (
	kmsg.ACLResourceType, kmsg.ACLResourcePatternType, kmsg.ACLOperation,
) {
	h.Helper()
	resource, err := kmsg.ParseACLResourceType(a.Resource)
	h.ok(err)
	op, err := kmsg.ParseACLOperation(operation)
	h.ok(err)
	if a.Prefixed {
		return resource, kmsg.ACLResourcePatternTypePrefixed, op
	}
	return resource, kmsg.ACLResourcePatternTypeLiteral, op
}
