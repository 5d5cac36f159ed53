//go:build !msk

package kafkaconn

import (
	"strings"
	"testing"
)

// TestMSKNotBuilt: a build without the tag says which one to take, and what does without it.
func TestMSKNotBuilt(t *testing.T) {
	_, err := New(Options{TLS: &TLS{}, SASL: &SASL{Mechanism: MSKIAM}})
	if err == nil || !strings.Contains(err.Error(), "this build has no AWS_MSK_IAM: build with "+
		"-tags msk") || !strings.Contains(err.Error(), "token_file") {
		t.Errorf("AWS_MSK_IAM: %v", err)
	}
}
