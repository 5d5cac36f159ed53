package main

import (
	_ "github.com/cockroachdb/pebble/v2"
	_ "github.com/cockroachdb/pebble/v2/bloom"
	_ "github.com/cockroachdb/pebble/v2/vfs"
	_ "github.com/cockroachdb/pebble/v2/vfs/errorfs"
	_ "github.com/linkedin/goavro/v2"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/segmentio/kafka-go"
	_ "github.com/segmentio/kafka-go/protocol/rawproduce"
	_ "github.com/spf13/cobra"
	_ "github.com/twmb/franz-go/pkg/kfake"
	_ "github.com/twmb/franz-go/pkg/kgo"
	_ "github.com/twmb/franz-go/pkg/kmsg"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/term"
	_ "golang.org/x/tools/go/packages"
	_ "gonum.org/v1/gonum/mat"
	_ "gonum.org/v1/gonum/stat/distuv"
)

func main() {}
