//go:build !msk

package kafkaconn

import (
	"errors"
	"time"
)

// newMSKTokens refuses: the SDK of AWS is in builds with the tag msk alone, because only Amazon's
// clusters need it.
func newMSKTokens(func() time.Time) (*tokens, error) {
	return nil, errors.New("kafka.sasl.mechanism: this build has no " + MSKIAM + ": build with " +
		"-tags msk (make build TAGS=msk, make image TAGS=msk), or let a sidecar write tokens for " +
		"mechanism OAUTHBEARER with token_file")
}
