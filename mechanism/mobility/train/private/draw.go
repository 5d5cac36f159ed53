package private

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/noise"
)

// scale is the scale of a discrete Laplace law: the rational number num/den.
type scale struct{ num, den uint64 }

func (s scale) value() float64 { return float64(s.num) / float64(s.den) }

// variance returns the variance of the law: 2q/(1-q)² with q = exp(-den/num).
func (s scale) variance() float64 {
	q := math.Exp(-float64(s.den) / float64(s.num))
	return 2 * q / float64((1-q)*(1-q))
}

// saturation is the largest noisy count. It is far beyond any count that occurs, and whole numbers
// up to it are exact in float64.
const saturation = 1 << 53

// noisy returns the count plus an exact discrete Laplace draw, limited to ±saturation.
//
// Guarantee: for counts in [0, saturation] the result is the sum, saturated. It is a function of
// the sum alone. A draw of two words exceeds twice the saturation, so whatever the count is, the
// sum lies beyond the saturation on the draw's side.
func noisy(count int64, s scale, random noise.Source) float64 {
	size, negative := noise.DiscreteLaplace(random, s.num, s.den)
	drawn := int64(2 * saturation)
	if size.Hi == 0 && size.Lo < 2*saturation {
		drawn = int64(size.Lo)
	}
	if negative {
		drawn = -drawn
	}
	return float64(min(max(count+drawn, -saturation), saturation))
}

// secrets hands out streams of random words for the parts of one training run. A part's stream
// depends on the secret and on the part's name only. So the model depends neither on the order of
// the work nor on the number of cores.
type secrets struct{ key noise.Key }

// newSecrets takes 256 bits from a source.
func newSecrets(random noise.Source) (secrets, error) {
	var words []byte
	for range noise.KeySize / 8 {
		words = binary.LittleEndian.AppendUint64(words, random.Uint64())
	}
	key, err := noise.ParseKey(hex.EncodeToString(words))
	return secrets{key}, err
}

// streams returns the family of streams, for one goroutine.
func (s secrets) streams() *noise.Keyed { return noise.NewKeyed(s.key) }

// userName, levelName and rowName keep the streams of users and of noise apart.
func userName(user string) []byte {
	return append([]byte("geodither private training, moves of "), user...)
}

func levelName(side int) []byte {
	return fmt.Appendf(nil, "geodither private training: noise of blocks of %d", side)
}
