package mapping

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/geodither/geodither/schemas"
)

// timelineArrays are the members of Google's exports that hold what is read of them.
var timelineArrays = []string{"locations", "semanticSegments", "rawSignals"}

// timelineFixes makes {"fixes": [{"time", "latitude", "longitude"}]} of an export of Google's
// Timeline, or of one of its elements, with times in milliseconds. There are three forms:
//
//   - Takeout's Records.json: {"locations": [{"latitudeE7", "longitudeE7", "timestamp"}]}, or
//     timestampMs
//   - Android's Timeline.json: {"semanticSegments": […], "rawSignals": […]}, places "lat°, lon°"
//   - iOS's location-history.json: an array of segments, places "geo:lat,lon"
func timelineFixes(tree any) any {
	elements := []any{tree}
	switch tree := tree.(type) {
	case []any:
		elements = tree
	case map[string]any:
		for _, name := range timelineArrays {
			elements = append(elements, listOf(tree[name])...)
		}
	}
	fixes := []any{}
	for _, element := range elements {
		fixes = appendTimeline(fixes, element)
	}
	return map[string]any{"fixes": fixes}
}

// appendTimeline appends the fixes of one element: a path, a visit, an activity or a signal. What
// has no place gives no fix.
func appendTimeline(fixes []any, element any) []any {
	add := func(time, latitude, longitude any) {
		if latitude != nil && longitude != nil {
			fixes = append(fixes, map[string]any{
				"time": time, "latitude": latitude, "longitude": longitude,
			})
		}
	}
	at := func(names ...string) any { return within(element, names...) }
	start, end := timelineTime(at("startTime")), timelineTime(at("endTime"))
	for _, p := range listOf(at("timelinePath")) {
		moment := timelineTime(within(p, "time"))
		if moment == nil {
			moment = minutesAfter(start, within(p, "durationMinutesOffsetFromStartTime"))
		}
		add(moment, within(p, "point"), within(p, "point"))
	}
	visited := placeOf(at("visit", "topCandidate", "placeLocation"))
	add(start, visited, visited)
	add(end, visited, visited)
	from, to := placeOf(at("activity", "start")), placeOf(at("activity", "end"))
	add(start, from, from)
	add(end, to, to)
	signal := at("position", "LatLng")
	add(timelineTime(at("position", "timestamp")), signal, signal)
	moment := timelineTime(at("timestamp"))
	if moment == nil {
		moment = at("timestampMs")
	}
	add(moment, fromE7(at("latitudeE7")), fromE7(at("longitudeE7")))
	return fixes
}

// within returns what members of members of a tree lead to; nil: nothing.
func within(tree any, names ...string) any {
	for _, name := range names {
		members, _ := tree.(map[string]any)
		tree = members[name]
	}
	return tree
}

func listOf(tree any) []any {
	list, _ := tree.([]any)
	return list
}

// placeOf returns a place that is a text, or an object with one (Android).
func placeOf(tree any) any {
	if members, ok := tree.(map[string]any); ok {
		return members["latLng"]
	}
	return tree
}

// timelineTime reads a time with a zone. Another text stays what it is, to be refused.
func timelineTime(tree any) any {
	text, ok := tree.(string)
	if !ok {
		return nil
	}
	if ms, ok := parseTime(text); ok {
		return ms
	}
	return text
}

// minutesAfter returns a time so many minutes later; the count may be a text. A start that is no
// time stays what it is, to be refused.
func minutesAfter(start, minutes any) any {
	ms, ok := start.(int64)
	if !ok {
		return start
	}
	text, ok := numberText(minutes)
	length, err := time.ParseDuration(text + "m")
	if !ok || err != nil {
		return nil
	}
	return ms + length.Milliseconds()
}

// fromE7 reads degrees that are written as whole ten-millionths of a degree; nil: there are none.
func fromE7(tree any) any {
	if whole, ok := tree.(int64); ok {
		return float64(whole) / 1e7
	}
	text, ok := numberText(tree)
	if !ok || strings.ContainsAny(text, ".eE") {
		return tree
	}
	return json.Number(text + "e-7")
}

// placeText returns latitude and longitude of a place in one text, "53.4471°, -2.9179°" or a
// geo: URI (RFC 5870) of WGS 84. Two numbers with a comma alone are none: that may be one number
// with a decimal comma.
func placeText(text string) (latitude, longitude string, ok bool) {
	rest, isURI := strings.CutPrefix(text, "geo:")
	if isURI {
		rest, _, _ = strings.Cut(rest, ";")
	}
	parts := strings.Split(rest, ",")
	if len(parts) != 2 && (!isURI || len(parts) != 3) {
		return "", "", false
	}
	for i, part := range parts {
		part, degrees := strings.CutSuffix(strings.TrimSpace(part), "°")
		if degrees == isURI {
			return "", "", false
		}
		parts[i] = part
	}
	return parts[0], parts[1], true
}

// degreesAt reads a coordinate that a path leads to. Where the last name of the path ends in E7, as
// in latitudeE7, it is in ten-millionths of a degree.
func degreesAt(v any, p path, field string) (float64, schemas.Reason) {
	if text, ok := v.(string); ok {
		if latitude, longitude, ok := placeText(text); ok {
			v = latitude
			if field == "longitude" {
				v = longitude
			}
		}
	}
	if len(p.steps) > 0 && strings.HasSuffix(p.steps[len(p.steps)-1].name, "E7") {
		v = fromE7(v)
	}
	return degreesOf(v)
}
