package account

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
)

// IdentityOf says whose states a folder holds: the changelog that they cache, in its
// cluster.
func IdentityOf(cluster, group string, t topics.Set, changelog [16]byte) []byte {
	return fmt.Appendf(namesOf(cluster, group, t), "%x", changelog)
}

func namesOf(cluster, group string, t topics.Set) []byte {
	return fmt.Appendf(nil, "cluster %q group %q raw %q changelog %q ", cluster, group, t.Raw,
		t.Changelog)
}

// CopyOf takes an identity apart: ours says that all names are those of a service, and
// changelog is the id that the changelog had.
func CopyOf(identity []byte, cluster, group string, t topics.Set) (changelog []byte, ours bool) {
	rest, ours := bytes.CutPrefix(identity, namesOf(cluster, group, t))
	var id []byte
	if ours {
		_, err := fmt.Sscanf(string(rest), "%x", &id)
		ours = err == nil && len(id) == 16
	}
	return slices.Clip(id), ours
}

// Remade is the error of a changelog that was deleted and made again at work. No
// transaction was committed beside the new one: its records come to lie at offsets that
// were taken, which the task sees before the commit.
func Remade(topic string, was, is []byte) error {
	return fmt.Errorf("%w: %s was deleted and made again while the service worked: its id was %x "+
		"and is %x (changelog-lost)", task.ErrLost, topic, was, is)
}

// CutChangelog is said of a changelog whose beginning is gone while its end is there.
// Kafka's cleaner leaves the beginning where it is; retention and kafka-delete-records
// move it.
const CutChangelog = "the changelog does not begin at offset 0 (changelog-cut)"
