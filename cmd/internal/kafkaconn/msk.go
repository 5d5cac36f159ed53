//go:build msk

package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"github.com/aws/aws-sdk-go-v2/config"
)

// newMSKTokens returns tokens that AWS's credentials sign for a region. The SDK looks for both as
// every program of AWS does: in the environment, the shared files, the role of the
// pod, task or machine. It asks for new ones before the old ones end, so a role's hours do not end
// the service.
func newMSKTokens(now func() time.Time) (*tokens, error) {
	aws, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		return nil, fmt.Errorf("kafka.sasl: AWS's settings cannot be read: %w", err)
	}
	if aws.Region == "" {
		return nil, errors.New("kafka.sasl: set AWS_REGION in the environment")
	}
	return newTokenSource(now, func(ctx context.Context) (string, time.Duration, error) {
		token, until, err := signer.GenerateAuthTokenFromCredentialsProvider(ctx, aws.Region,
			aws.Credentials)
		if err != nil {
			return "", 0, fmt.Errorf("AWS gives no credentials; set AWS_ACCESS_KEY_ID and "+
				"AWS_SECRET_ACCESS_KEY, or a role: %w", err)
		}
		return token, time.UnixMilli(until).Sub(now()), nil
	}), nil
}
