package private

import (
	"errors"
	"strconv"
	"strings"
)

// Bounds of an ε that is written as a decimal number. With at most nine decimals everything that
// is computed from it fits into whole numbers. Beyond 1000 it promises nothing.
const (
	maxEpsilonDecimals = 9
	maxEpsilonDigits   = 3
)

var errEpsilon = errors.New("private: ε is no positive decimal number below 1000 with nine " +
	"decimals")

// parseEpsilon reads a decimal number as the rational number num/den, where den is a power of ten.
// It uses no float64.
func parseEpsilon(text string) (num, den uint64, err error) {
	whole, decimals, _ := strings.Cut(text, ".")
	digits := whole + decimals
	if digits == "" || len(whole) > maxEpsilonDigits || len(decimals) > maxEpsilonDecimals ||
		strings.Trim(digits, "0123456789") != "" {
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
