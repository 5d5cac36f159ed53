package oracle

import "math"

// The WGS 84 ellipsoid: equatorial radius in kilometres and first eccentricity squared (NIMA
// TR8350.2, table 3.1 and 3.3). They are written down again, so that a wrong digit in the map's is
// noticed.
const (
	equatorKM    = 6378.137
	eccentricity = 6.69437999014e-3
	radians      = math.Pi / 180
)

// Distance returns the length in kilometres of the geodesic between two places on WGS 84 (Vincenty
// 1975, doi:10.1179/sre.1975.23.176.88, the inverse formula). It does not converge for nearly
// antipodal places.
func Distance(lat1, lon1, lat2, lon2 float64) float64 {
	f := 1 - math.Sqrt(1-eccentricity)
	b := equatorKM * (1 - f)
	u1, u2 := math.Atan((1-f)*math.Tan(lat1*radians)), math.Atan((1-f)*math.Tan(lat2*radians))
	sin1, cos1 := math.Sincos(u1)
	sin2, cos2 := math.Sincos(u2)
	difference := (lon2 - lon1) * radians
	lambda := difference
	for range 100 {
		sinL, cosL := math.Sincos(lambda)
		sinS := math.Hypot(cos2*sinL, cos1*sin2-sin1*cos2*cosL)
		if sinS == 0 {
			return 0
		}
		cosS := sin1*sin2 + cos1*cos2*cosL
		sigma := math.Atan2(sinS, cosS)
		sinA := cos1 * cos2 * sinL / sinS
		cosA2 := 1 - sinA*sinA
		cosM := 0.0
		if cosA2 != 0 {
			cosM = cosS - 2*sin1*sin2/cosA2
		}
		c := f / 16 * cosA2 * (4 + f*(4-3*cosA2))
		next := difference + (1-c)*f*sinA*(sigma+c*sinS*(cosM+c*cosS*(2*cosM*cosM-1)))
		if math.Abs(next-lambda) < 1e-13 {
			u := cosA2 * (equatorKM*equatorKM - b*b) / (b * b)
			long := 1 + u/16384*(4096+u*(-768+u*(320-175*u)))
			short := u / 1024 * (256 + u*(-128+u*(74-47*u)))
			correction := short * sinS *
				(cosM + short/4*(cosS*(2*cosM*cosM-1)-short/6*cosM*(4*sinS*sinS-3)*(4*cosM*cosM-3)))
			return b * long * (sigma - correction)
		}
		lambda = next
	}
	return math.NaN()
}
