// device-plugin offers GPUs that do not exist to a real kubelet.
//
//	device-plugin FOLDER LIST
//
// FOLDER is the kubelet's folder for device plugins, with its socket. LIST names one device a line, "ID" or "ID Unhealthy"; it is read again
// twice a second, so that a test makes a device fail by writing a line. The plugin registers again after the kubelet restarted.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = "tenure-gpu.sock"
	period   = 500 * time.Millisecond
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	list string
}

func (p *plugin) devices() ([]*api.Device, error) {
	text, err := os.ReadFile(p.list)
	if err != nil {
		return nil, err
	}
	var found []*api.Device
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		health := api.Healthy
		if len(fields) > 1 {
			health = fields[1]
		}
		found = append(found, &api.Device{ID: fields[0], Health: health})
	}
	return found, nil
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices at once, and again each time the list differs.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	sent := ""
	for {
		devices, err := p.devices()
		if err != nil {
			return err
		}
		if now := fmt.Sprint(devices); now != sent {
			if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			sent = now
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(period):
		}
	}
}

// Allocate names a container's devices to it in the variable that NVIDIA's plugin uses.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return answer, nil
}

func register(folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	kubelet, err := grpc.NewClient("unix:"+filepath.Join(folder, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	_, err = api.NewRegistrationClient(kubelet).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: socket, ResourceName: resource, Options: &api.DevicePluginOptions{},
	})
	return err
}

// serve offers the devices until the kubelet removes our socket, which it does when it starts.
func serve(folder, list string) error {
	path := filepath.Join(folder, socket)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{list: list})
	defer server.Stop()
	go server.Serve(listener)
	if err := register(folder); err != nil {
		return err
	}
	log.Printf("registered %s", resource)
	for {
		time.Sleep(period)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the kubelet started again: %w", err)
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: device-plugin FOLDER LIST")
	}
	for {
		log.Print(serve(os.Args[1], os.Args[2]))
		time.Sleep(period)
	}
}
