// franz-go as members of groups: commands and events as in tests/compat/members/__init__.py, a goroutine each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type spec struct {
	Bootstrap   string   `json:"bootstrap"`
	Group       string   `json:"group"`
	Topics      []string `json:"topics"`
	Pattern     *string  `json:"pattern"`
	Protocol    string   `json:"protocol"`
	Assignor    *string  `json:"assignor"`
	Instance    *string  `json:"instance"`
	Reset       string   `json:"reset"`
	Commit      string   `json:"commit"`
	SessionMs   int      `json:"session_ms"`
	HeartbeatMs int      `json:"heartbeat_ms"`
	MaxPollMs   int      `json:"max_poll_ms"`
}

type command struct {
	Op      string  `json:"op"`
	Member  string  `json:"member"`
	Spec    spec    `json:"spec"`
	Sync    bool    `json:"sync"`
	Seconds float64 `json:"seconds"`
}

var output sync.Mutex

func hostMembers() {
	members := map[string]*member{}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var c command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err)
		}
		if c.Op == "join" {
			members[c.Member] = &member{name: c.Member, spec: c.Spec, commands: make(chan command, 16), next: offsetsByTopic{}}
			go members[c.Member].run()
		} else {
			members[c.Member].commands <- c
		}
	}
}

type offsetsByTopic = map[string]map[int32]kgo.EpochOffset

type member struct {
	name     string
	spec     spec
	commands chan command
	client   *kgo.Client
	next     offsetsByTopic
}

func (m *member) tell(kind string, value any, text string) {
	at := float64(time.Now().UnixMicro()) / 1e6
	output.Lock()
	defer output.Unlock()
	json.NewEncoder(os.Stdout).Encode(map[string]any{"member": m.name, "at": at, kind: value, "text": text})
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func (m *member) options() []kgo.Opt {
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(), "uniform": kgo.StickyBalancer(),
	}
	start := kgo.NewOffset().AtStart()
	if m.spec.Reset == "latest" {
		start = kgo.NewOffset().AtEnd()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(m.spec.Bootstrap), kgo.ClientID(m.name), kgo.ConsumerGroup(m.spec.Group),
		kgo.ConsumeResetOffset(start), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.SessionTimeout(milliseconds(m.spec.SessionMs)), kgo.HeartbeatInterval(milliseconds(m.spec.HeartbeatMs)),
		kgo.RebalanceTimeout(milliseconds(m.spec.MaxPollMs)),
		// Callbacks wait until what was polled has been dealt with.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, places map[string][]int32) {
			m.tell("assigned", pairsOf(places), "")
		}),
		kgo.OnPartitionsRevoked(m.onRevoked),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, places map[string][]int32) { m.giveUp("lost", places) }),
	}
	if m.spec.Commit == "auto" {
		options = append(options, kgo.AutoCommitInterval(200*time.Millisecond), kgo.AutoCommitCallback(m.onAutoCommit))
	} else {
		options = append(options, kgo.DisableAutoCommit())
	}
	if m.spec.Instance != nil {
		options = append(options, kgo.InstanceID(*m.spec.Instance))
	}
	if m.spec.Pattern != nil {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(*m.spec.Pattern), kgo.MetadataMinAge(50*time.Millisecond),
			kgo.MetadataMaxAge(300*time.Millisecond))
	} else {
		options = append(options, kgo.ConsumeTopics(m.spec.Topics...))
	}
	if m.spec.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else if m.spec.Assignor != nil {
		options = append(options, kgo.Balancers(balancers[*m.spec.Assignor]))
	}
	return options
}

func (m *member) run() {
	client, err := kgo.NewClient(m.options()...)
	if err != nil {
		m.tell("failed", err.Error(), "")
		return
	}
	m.client = client
	for {
		select {
		case c := <-m.commands:
			switch c.Op {
			case "commit":
				m.commit(c.Sync)
			case "stall":
				time.Sleep(time.Duration(c.Seconds * float64(time.Second)))
			default:
				client.CloseAllowingRebalance()
				m.tell("left", true, "")
				return
			}
		default:
			m.step()
		}
	}
}

func (m *member) step() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	fetches := m.client.PollRecords(ctx, 200)
	defer m.client.AllowRebalance()
	records := [][4]any{}
	fetches.EachRecord(func(r *kgo.Record) {
		records = append(records, [4]any{r.Topic, r.Partition, r.Offset, string(r.Value)})
		if m.next[r.Topic] == nil {
			m.next[r.Topic] = map[int32]kgo.EpochOffset{}
		}
		m.next[r.Topic][r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	})
	if len(records) > 0 {
		m.tell("records", records, "")
		if m.spec.Commit == "always" {
			m.commit(true)
		}
	}
}

func (m *member) commit(synchronously bool) {
	told := [][3]any{}
	for topic, partitions := range m.next {
		for partition, at := range partitions {
			told = append(told, [3]any{topic, partition, at.Offset})
		}
	}
	if len(told) == 0 {
		return
	}
	m.tell("committing", told, "")
	done := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		m.tellCommit(told, response, err)
	}
	if synchronously {
		m.client.CommitOffsetsSync(context.Background(), m.next, done)
	} else {
		m.client.CommitOffsets(context.Background(), m.next, done)
	}
}

func (m *member) onAutoCommit(_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
	told := [][3]any{}
	for _, topic := range request.Topics {
		for _, partition := range topic.Partitions {
			told = append(told, [3]any{topic.Topic, partition.Partition, partition.Offset})
		}
	}
	m.tellCommit(told, response, err)
}

func (m *member) tellCommit(told [][3]any, response *kmsg.OffsetCommitResponse, err error) {
	if err == nil && response != nil {
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				if partition.ErrorCode != 0 {
					err = kerr.ErrorForCode(partition.ErrorCode)
				}
			}
		}
	}
	if err != nil {
		m.tell("commit_failed", told, err.Error())
	} else {
		m.tell("committed", told, "")
	}
}

func (m *member) onRevoked(ctx context.Context, client *kgo.Client, places map[string][]int32) {
	switch m.spec.Commit {
	case "always":
		m.commit(true)
	case "auto":
		// What the client does by itself as long as nobody sets this callback.
		client.CommitUncommittedOffsets(ctx)
	}
	m.giveUp("revoked", places)
}

func (m *member) giveUp(how string, places map[string][]int32) {
	if pairs := pairsOf(places); len(pairs) > 0 {
		m.tell(how, pairs, "")
	}
	for topic, partitions := range places {
		for _, partition := range partitions {
			delete(m.next[topic], partition)
		}
	}
}

func pairsOf(places map[string][]int32) [][2]any {
	pairs := [][2]any{}
	for topic, partitions := range places {
		for _, partition := range partitions {
			pairs = append(pairs, [2]any{topic, partition})
		}
	}
	return pairs
}
