package main

import (
	"bytes"
	"testing"

	"github.com/geodither/geodither/cmd/internal/verify"
)

// TestVerifyReportWords: columns say what they count, the backlog has a line, and a
// difference names what an operator may have done.
func TestVerifyReportWords(t *testing.T) {
	var out bytes.Buffer
	report := verify.Report{Partitions: []verify.PartitionReport{
		{Partition: 0, Unprocessed: 3, ViolationCount: 1}, {Partition: 1, Unprocessed: 4},
	}}
	if err := printReport(&out, report); err != nil {
		t.Fatal(err)
	}
	requireWords(t, out.String(), "processed", "aborted or open",
		"7 raw records are not processed yet and are not judged")
	requireWords(t, verdict(report).Error(),
		"--accept-lost-account", "reset of everything", "report it")
}
