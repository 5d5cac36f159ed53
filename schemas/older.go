package schemas

import "slices"

// older is the layout of an earlier version of sanitized records.
type older struct {
	*layout
	// from has for each column of the present version the column that it comes from, or -1.
	from  [maxFields]int
	kinds bool // its records have a kind
}

// Some columns of sanitized records.
const (
	ellipseColumn = 5 // the first of three
	kindColumn    = 8
	epsilonColumn = 9
	releaseColumn = 15 // the first of two
	firstFactor   = 17 // of three
	shareColumn   = 20
)

// estimateLatitude is a field that versions 1 and 2 have and no later version may have: it tells
// their JSON objects from later ones, whose latitude is another place.
const estimateLatitude = "estimate_latitude"

// FormerName returns the name that a field of sanitized records had in versions 1 and 2.
func FormerName(field string) string {
	switch field {
	case "latitude":
		return estimateLatitude
	case "longitude":
		return "estimate_longitude"
	case "release_latitude":
		return "latitude"
	case "release_longitude":
		return "longitude"
	}
	return field
}

func newOlder(schema string, present *layout) (older, error) {
	l, err := newLayout(schema)
	if err != nil {
		return older{}, err
	}
	index := func(field string) int {
		return slices.IndexFunc(l.columns, func(c column) bool { return c.field == field })
	}
	o := older{layout: l, kinds: index("kind") >= 0}
	for i, c := range present.columns {
		o.from[i] = index(FormerName(c.field))
	}
	return o, nil
}

// translate fills a row of the present version.
func (o *older) translate(row, old []value) []value {
	for i := range row {
		row[i] = value{}
		if at := o.from[i]; at >= 0 {
			row[i] = old[at]
		}
	}
	kind := &row[kindColumn]
	if !o.kinds {
		*kind = value{text: firstKind(row[epsilonColumn].number), present: true}
	}
	if kind.text == KindPredicted { // it had the estimate in the place of a release
		row[releaseColumn], row[releaseColumn+1] = value{}, value{}
	}
	return row
}

// firstKind returns the kind of a record of the first version, which had two kinds.
func firstKind(epsilon float64) string {
	if epsilon > 0 {
		return KindReleased
	}
	return KindRepeated
}
