// Topic admin and offset look-ups, as requests that the client routes and retries.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func decoded(text *string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	return base64.StdEncoding.DecodeString(*text)
}

func offsets(ctx context.Context, client *kgo.Client, c *call) (any, error) {
	var asked []int32
	if err := json.Unmarshal(c.Partitions, &asked); err != nil {
		return nil, err
	}
	request := kmsg.NewPtrListOffsetsRequest()
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = c.Topic
	for _, partition := range asked {
		wanted := kmsg.NewListOffsetsRequestTopicPartition()
		wanted.Partition, wanted.Timestamp = partition, c.At
		topic.Partitions = append(topic.Partitions, wanted)
	}
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	found := [][2]any{}
	for _, p := range response.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return nil, err
		}
		if p.Offset < 0 {
			found = append(found, [2]any{p.Partition, nil})
		} else {
			found = append(found, [2]any{p.Partition, p.Offset})
		}
	}
	return found, nil
}

func administer(ctx context.Context, client *kgo.Client, c *call) (any, error) {
	switch c.Op {
	case "create_topic":
		return nil, createTopic(ctx, client, c)
	case "delete_topic":
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.TopicNames = []string{c.Topic}
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &c.Topic
		request.Topics = append(request.Topics, topic)
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		return nil, kerr.ErrorForCode(response.Topics[0].ErrorCode)
	case "create_partitions":
		return nil, createPartitions(ctx, client, c)
	case "describe_configs":
		return describeConfigs(ctx, client, c)
	default:
		return describe(ctx, client, c)
	}
}

func createTopic(ctx context.Context, client *kgo.Client, c *call) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.ReplicationFactor = c.Topic, c.ReplicationFactor
	if err := json.Unmarshal(c.Partitions, &topic.NumPartitions); err != nil {
		return err
	}
	var assignment []json.RawMessage
	if err := json.Unmarshal(c.Assignment, &assignment); err != nil {
		return err
	}
	for _, pair := range assignment {
		wanted := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		if err := json.Unmarshal(pair, &[]any{&wanted.Partition, &wanted.Replicas}); err != nil {
			return err
		}
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, wanted)
		topic.NumPartitions, topic.ReplicationFactor = -1, -1
	}
	for name, value := range c.Configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = name, &value
		topic.Configs = append(topic.Configs, config)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.ValidateOnly = c.ValidateOnly
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

func createPartitions(ctx context.Context, client *kgo.Client, c *call) error {
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = c.Topic, c.Total
	var assignment [][]int32
	if err := json.Unmarshal(c.Assignment, &assignment); err != nil {
		return err
	}
	for _, replicas := range assignment {
		wanted := kmsg.NewCreatePartitionsRequestTopicAssignment()
		wanted.Replicas = replicas
		topic.Assignment = append(topic.Assignment, wanted)
	}
	request := kmsg.NewPtrCreatePartitionsRequest()
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

func describeConfigs(ctx context.Context, client *kgo.Client, c *call) (any, error) {
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceName = c.Name
	resource.ResourceType = map[string]kmsg.ConfigResourceType{
		"topic": kmsg.ConfigResourceTypeTopic, "broker": kmsg.ConfigResourceTypeBroker,
	}[c.Kind]
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(response.Resources[0].ErrorCode); err != nil {
		return nil, err
	}
	found := map[string]*string{}
	for _, config := range response.Resources[0].Configs {
		found[config.Name] = config.Value
	}
	return found, nil
}

func describe(ctx context.Context, client *kgo.Client, c *call) (any, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.AllowAutoTopicCreation = false
	if c.Op != "list_topics" {
		request.Topics = []kmsg.MetadataRequestTopic{}
	}
	if c.Op == "describe_topic" {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &c.Topic
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	switch c.Op {
	case "list_topics":
		names := []string{}
		for _, topic := range response.Topics {
			names = append(names, *topic.Topic)
		}
		return names, nil
	case "describe_topic":
		if err := kerr.ErrorForCode(response.Topics[0].ErrorCode); err != nil {
			return nil, err
		}
		rows := [][4]any{}
		for _, p := range response.Topics[0].Partitions {
			rows = append(rows, [4]any{p.Partition, p.Leader, p.Replicas, p.ISR})
		}
		return rows, nil
	case "describe_cluster":
		brokers := [][3]any{}
		for _, broker := range response.Brokers {
			brokers = append(brokers, [3]any{broker.NodeID, broker.Host, broker.Port})
		}
		return map[string]any{"cluster_id": response.ClusterID, "controller": response.ControllerID, "brokers": brokers}, nil
	}
	return nil, fmt.Errorf("unknown call %s", c.Op)
}
