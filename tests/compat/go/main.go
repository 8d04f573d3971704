// The franz-go client behind one JSON object a line: a call on stdin, its answer on stdout.
// Bytes travel as base64, which is how encoding/json writes []byte. The calls are those of tests/compat/clients/base.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	earliest = -2
	latest   = -1
)

type record struct {
	Key         []byte       `json:"key"`
	Value       []byte       `json:"value"`
	Headers     [][2]*string `json:"headers"`
	Partition   *int32       `json:"partition"`
	TimestampMs *int64       `json:"timestamp_ms"`
}

type call struct {
	Op         string          `json:"op"`
	Bootstrap  string          `json:"bootstrap"`
	TimeoutMs  int64           `json:"timeout_ms"`
	Topic      string          `json:"topic"`
	Codec      string          `json:"codec"`
	Acks       int             `json:"acks"`
	Idempotent bool            `json:"idempotent"`
	MaxBytes   int32           `json:"max_bytes"`
	BatchBytes *int32          `json:"batch_bytes"`
	Records    []record        `json:"records"`
	Start      [][2]int64      `json:"start"`
	Count      int             `json:"count"`
	Partitions json.RawMessage `json:"partitions"`
	At         int64           `json:"at"`

	ReplicationFactor int16             `json:"replication_factor"`
	Configs           map[string]string `json:"configs"`
	Assignment        json.RawMessage   `json:"assignment"`
	ValidateOnly      bool              `json:"validate_only"`
	Total             int32             `json:"total"`
	Kind              string            `json:"kind"`
	Name              string            `json:"name"`
}

type stored struct {
	Partition   int32    `json:"partition"`
	Offset      int64    `json:"offset"`
	TimestampMs int64    `json:"timestamp_ms"`
	AppendTime  bool     `json:"append_time"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     [][2]any `json:"headers"`
}

type readTimeout struct{ error }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "members" {
		hostMembers()
		return
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var c call
		if err := json.Unmarshal(line, &c); err != nil {
			panic(err)
		}
		out.Encode(answer(&c))
	}
}

func answer(c *call) map[string]any {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.TimeoutMs)*time.Millisecond)
	defer cancel()
	result, err := serve(ctx, c)
	var late readTimeout
	var code *kerr.Error
	switch {
	case err == nil:
		return map[string]any{"ok": result}
	case errors.As(err, &late):
		return map[string]any{"timeout": err.Error()}
	case errors.As(err, &code):
		return map[string]any{"error": map[string]any{"code": code.Code, "text": err.Error()}}
	default:
		return map[string]any{"error": map[string]any{"code": nil, "text": err.Error()}}
	}
}

func serve(ctx context.Context, c *call) (any, error) {
	switch c.Op {
	case "produce":
		return produce(ctx, c)
	case "consume":
		return consume(ctx, c)
	}
	client, err := connect(c)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if c.Op == "offsets" {
		return offsets(ctx, client, c)
	}
	return administer(ctx, client, c)
}

func connect(c *call, options ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{kgo.SeedBrokers(c.Bootstrap), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })}
	return kgo.NewClient(append(base, options...)...)
}

func produce(ctx context.Context, c *call) (any, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[int]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}
	batchBytes := c.MaxBytes
	if c.BatchBytes != nil {
		batchBytes = *c.BatchBytes
	}
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[c.Codec]),
		kgo.RequiredAcks(acks[c.Acks]),
		kgo.ProducerBatchMaxBytes(batchBytes),
		kgo.BrokerMaxWriteBytes(max(100<<20, 2*c.MaxBytes)),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(chooser)),
		kgo.AllowAutoTopicCreation(),
	}
	if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := connect(c, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(c.Records))
	for i, r := range c.Records {
		records[i] = &kgo.Record{Topic: c.Topic, Key: r.Key, Value: r.Value, Partition: -1}
		if r.Partition != nil {
			records[i].Partition = *r.Partition
		}
		if r.TimestampMs != nil {
			records[i].Timestamp = time.UnixMilli(*r.TimestampMs)
		}
		for _, header := range r.Headers {
			value, err := decoded(header[1])
			if err != nil {
				return nil, err
			}
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: *header[0], Value: value})
		}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	acked := make([][2]int64, len(records))
	for i, r := range records {
		acked[i] = [2]int64{int64(r.Partition), r.Offset}
	}
	return acked, nil
}

// The client's own Kafka-compatible partitioner, unless the record names its partition.
func chooser(topic string) func(*kgo.Record, int) int {
	keyed := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	return func(r *kgo.Record, n int) int {
		if r.Partition >= 0 {
			return int(r.Partition)
		}
		return keyed.Partition(r, n)
	}
}

func consume(ctx context.Context, c *call) (any, error) {
	places := map[int32]kgo.Offset{}
	for _, pair := range c.Start {
		at := kgo.NewOffset().At(pair[1])
		switch pair[1] {
		case earliest:
			at = kgo.NewOffset().AtStart()
		case latest:
			at = kgo.NewOffset().AtEnd()
		}
		places[int32(pair[0])] = at
	}
	client, err := connect(c,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: places}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxPartitionBytes(c.MaxBytes),
		kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := []stored{}
	for len(found) < c.Count {
		fetches := client.PollRecords(ctx, c.Count-len(found))
		if ctx.Err() != nil {
			return nil, readTimeout{fmt.Errorf("%d of %d records read", len(found), c.Count)}
		}
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { found = append(found, store(r)) })
	}
	return found, nil
}

func store(r *kgo.Record) stored {
	headers := [][2]any{}
	for _, header := range r.Headers {
		headers = append(headers, [2]any{header.Key, header.Value})
	}
	return stored{
		Partition: r.Partition, Offset: r.Offset, TimestampMs: r.Timestamp.UnixMilli(),
		AppendTime: r.Attrs.TimestampType() == 1, Key: r.Key, Value: r.Value, Headers: headers,
	}
}
