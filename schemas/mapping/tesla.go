package mapping

import (
	"encoding/json"
	"regexp"
)

// locationText is a place as fleet-telemetry servers of before 2023 wrote it.
var locationText = regexp.MustCompile(
	`^\((\d{1,3}(?:\.\d{1,17})?) ([NS]), (\d{1,3}(?:\.\d{1,17})?) ([EW])\)$`)

// locationsOfText puts a locationValue in the place of each Location that is a text, such as
// "(37.412374 N, 122.145867 W)". A text that says nothing of the sort stays what it is.
func locationsOfText(tree any) any {
	members, _ := tree.(map[string]any)
	data, _ := members["data"].([]any)
	for _, datum := range data {
		datum, _ := datum.(map[string]any)
		value, _ := datum["value"].(map[string]any)
		text, ok := value["stringValue"].(string)
		if datum["key"] != "Location" || !ok {
			continue
		}
		parts := locationText.FindStringSubmatch(text)
		if parts == nil {
			continue
		}
		value["locationValue"] = map[string]any{
			"latitude":  signed(parts[1], parts[2] == "S"),
			"longitude": signed(parts[3], parts[4] == "W"),
		}
	}
	return tree
}

// signed returns the number of these digits.
func signed(digits string, negative bool) json.Number {
	if negative {
		digits = "-" + digits
	}
	return json.Number(digits)
}
