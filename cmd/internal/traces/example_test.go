package traces_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/geodither/geodither/cmd/internal/traces"
)

func ExampleOpen() {
	in := strings.NewReader("ts,user,lat,lon\n" +
		"2023-11-14T22:13:20Z,ada,51.5,-0.1\n" +
		"2023-11-14T22:13:50Z,ada,151.5,-0.1\n" +
		"2023-11-14T22:14:20Z,ada,51.6,-0.1\n")
	reader, err := traces.Open(context.Background(), []string{traces.Stdin}, in, traces.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for fix, err := range reader.Fixes() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(fix.Timestamp, fix) // a fix prints redacted
	}
	fmt.Println(reader.Skips())
	// Output:
	// 1700000000000 [redacted]
	// 1700000060000 [redacted]
	// 1 line skipped: 1 latitude_out_of_range; first at standard input:3
}
