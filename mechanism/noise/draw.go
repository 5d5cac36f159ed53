package noise

// Uniform returns a uniform number of (0, 1): an odd multiple of 2⁻⁵³, never 0 or 1. It takes one word.
func Uniform(src Source) float64 { return open(src.Uint64()) }

// open maps the upper 52 bits of a word to the middle of one of 2⁵² equal parts of (0, 1).
func open(word uint64) float64 { return (float64(word>>12) + 0.5) * 0x1p-52 }

// Gamma returns a number of the Gamma law with whole shape and scale 1, the sum of as many exponential numbers: minus the logarithm of a
// product of uniforms. It takes shape words and one logarithm for every 16 of them. It panics on a shape below 1.
func Gamma(src Source, shape int) float64 {
	if shape < 1 {
		panic("noise: the shape of Gamma must be a positive whole number")
	}
	sum := 0.0
	for shape > 0 {
		product := 1.0
		for range min(shape, 16) { // 16 factors of at least 2⁻⁵³ stay far above the smallest double
			product *= Uniform(src)
		}
		sum -= log(product)
		shape -= 16
	}
	return sum
}

// Laplace returns a number of the density e^{-|x|}/2. It takes one word: the sign is a bit that Uniform does not look at.
func Laplace(src Source) float64 {
	word := src.Uint64()
	x := -log(open(word))
	if word&1 == 1 {
		return -x
	}
	return x
}
