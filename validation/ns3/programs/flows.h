// The list of flows that both simulators read, and what became of each.

#pragma once

#include "ns3/core-module.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

struct Flow
{
    uint32_t source{0};
    uint32_t destination{0};
    uint64_t bytes{0};
    ns3::Time start;
    uint16_t port{0}; // of the sender

    uint64_t received{0};
    bool complete{false};
    ns3::Time end;
    uint64_t timeouts{0};
    uint64_t recoveries{0};
    uint64_t retransmissions{0};
};

// "0.010003141592" to the picosecond.
inline ns3::Time
ReadSeconds(const std::string& word)
{
    size_t point = word.find('.');
    std::string fraction = point == std::string::npos ? "" : word.substr(point + 1);
    fraction.resize(12, '0');
    return ns3::PicoSeconds(std::stoll(word.substr(0, point)) * 1000000000000LL + std::stoll(fraction));
}

// HPCC's flow.txt: the number of flows, then "source destination group port bytes start-in-seconds".
inline std::vector<Flow>
ReadFlows(const std::string& file)
{
    std::ifstream in(file);
    size_t count = 0;
    in >> count;
    std::vector<Flow> flows(count);
    for (Flow& flow : flows)
    {
        std::string group;
        std::string port;
        std::string start;
        in >> flow.source >> flow.destination >> group >> port >> flow.bytes >> start;
        NS_ABORT_MSG_IF(!in, "cannot read flows from " << file);
        flow.start = ReadSeconds(start);
    }
    return flows;
}
