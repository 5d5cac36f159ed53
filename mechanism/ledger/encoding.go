package ledger

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"github.com/geodither/geodither/mechanism/internal/portable"
)

// AppendBinary appends the encoding of l:
//
//	head    uvarint  2 × number of runs; 1 more where times are milliseconds, not steps of step_ms
//	older   uvarint  billionths of ε before the runs
//	base    varint   the latest time before the runs, else that of the first run's first release
//	runs    oldest first, each:
//	  gap   uvarint  to the first release, from the base or from the end of the run before
//	  count uvarint  releases at equal distances; 0 for costs added up
//	  time  uvarint  from one release to the next; for a count of 0 from the first to the last;
//	                 absent for a count of 1
//	  each  uvarint  billionths of ε of each release, or of all added up; 0: as in the run before
//
// Times are ends of steps since 1970. Three bytes a run at a cost that does not change, in steps;
// eleven at the very most for each of its numbers.
func (l *Ledger) AppendBinary(dst []byte, stepMS int64) []byte {
	unit := l.unit(stepMS)
	head := 2 * uint64(len(l.runs))
	if unit != stepMS {
		head++
	}
	base := l.older.end
	if l.older.amount == 0 {
		base = 0
		if len(l.runs) > 0 {
			base = l.runs[0].first()
		}
	}
	dst = binary.AppendUvarint(dst, head)
	dst = binary.AppendUvarint(dst, uint64(l.older.amount))
	dst = binary.AppendVarint(dst, base/unit)
	before, each := base, Billionths(0)
	for _, r := range l.runs {
		dst = binary.AppendUvarint(dst, (uint64(r.first())-uint64(before))/uint64(unit))
		dst = binary.AppendUvarint(dst, r.count)
		switch r.count {
		case 0:
			dst = binary.AppendUvarint(dst, r.span/uint64(unit))
		case 1:
		default:
			dst = binary.AppendUvarint(dst, r.stride()/uint64(unit))
		}
		if r.each == each {
			dst = append(dst, 0)
		} else {
			dst = binary.AppendUvarint(dst, uint64(r.each))
		}
		before, each = r.end, r.each
	}
	return dst
}

// first returns the time of the run's first release.
func (r run) first() int64 { return int64(uint64(r.end) - r.span) }

// unit returns the length of a step if all times are whole steps, as they are but after a change of
// model, and else a millisecond.
func (l *Ledger) unit(stepMS int64) int64 {
	if l.older.amount > 0 && l.older.end%stepMS != 0 {
		return 1
	}
	for _, r := range l.runs {
		if r.end%stepMS != 0 || r.span%uint64(stepMS) != 0 || r.stride()%uint64(stepMS) != 0 {
			return 1
		}
	}
	return stepMS
}

// errEncoding is what DecodeBinary returns. It is one value, so that decoding does not allocate.
var errEncoding = errors.New("ledger: the encoding is cut short")

// DecodeBinary replaces l by the ledger that AppendBinary wrote at the front of data, and returns
// what follows it. It accepts any bytes: after an error l is in no particular state. It does not
// allocate once l has grown.
func (l *Ledger) DecodeBinary(data []byte, stepMS int64) (rest []byte, err error) {
	l.Reset()
	r := portable.Reader{Rest: data}
	l.decode(&r, stepMS)
	if r.Bad {
		return nil, errEncoding
	}
	return r.Rest, nil
}

func (l *Ledger) decode(d *portable.Reader, stepMS int64) {
	head := d.Uvarint()
	l.older.amount = Billionths(d.Uvarint())
	unit := stepMS
	if head&1 == 1 {
		unit = 1
	}
	base := d.Varint()
	if head/2 > MaxRuns || base > math.MaxInt64/unit || base < math.MinInt64/unit {
		d.Bad = true
		return
	}
	before, each := base*unit, Billionths(0)
	if l.older.amount > 0 {
		l.older.end = before
	}
	l.spent = l.older.amount
	for range head / 2 {
		r := run{end: before}
		r.end = later(d, r.end, d.Uvarint(), unit)
		r.count = d.Uvarint()
		first := r.end
		switch r.count {
		case 0:
			r.end = later(d, first, d.Uvarint(), unit)
		case 1:
		default:
			high, units := bits.Mul64(d.Uvarint(), r.count-1)
			d.Bad = d.Bad || high != 0
			r.end = later(d, first, units, unit)
		}
		r.span = uint64(r.end) - uint64(first)
		if r.each = Billionths(d.Uvarint()); r.each == 0 {
			r.each = each
		}
		if d.Bad = d.Bad || r.each == 0; d.Bad {
			return
		}
		l.runs = append(l.runs, r)
		l.spent = l.spent.Plus(r.total())
		before, each = r.end, r.each
	}
}

// later returns a time so many units after another one. Beyond int64 it makes d bad.
func later(d *portable.Reader, ms int64, units uint64, unit int64) int64 {
	high, span := bits.Mul64(units, uint64(unit))
	if high != 0 || span > uint64(math.MaxInt64)-uint64(ms) {
		d.Bad = true
		return ms
	}
	return int64(uint64(ms) + span)
}
