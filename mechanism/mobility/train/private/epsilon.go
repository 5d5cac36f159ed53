package private

import (
	"errors"
	"strconv"
	"strings"
)

// Bounds of an ε that is written as a decimal number: at most nine decimals, so that whole numbers hold all that is computed with
// it, and below 1000, which promises nothing any more.
const (
	maxEpsilonDecimals = 9
	maxEpsilonDigits   = 3
)

var errEpsilon = errors.New("private: ε of private training must be a positive decimal number below 1000 with at most nine decimals, such as 0.5")

// parseEpsilon reads a decimal number as the rational num/den that it says, den a power of ten. No float64 comes near it.
func parseEpsilon(text string) (num, den uint64, err error) {
	whole, decimals, _ := strings.Cut(text, ".")
	digits := whole + decimals
	if digits == "" || len(whole) > maxEpsilonDigits || len(decimals) > maxEpsilonDecimals || strings.Trim(digits, "0123456789") != "" {
		return 0, 0, errEpsilon
	}
	num, err = strconv.ParseUint(digits, 10, 64)
	if err != nil || num == 0 {
		return 0, 0, errEpsilon
	}
	den = 1
	for range decimals {
		den *= 10
	}
	return num, den, nil
}
