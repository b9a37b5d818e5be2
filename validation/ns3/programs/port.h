// The queue of a switch port as this project counts it: packets waiting, without the one in transmission.
//
// In ns-3 a port is a queue disc in front of a device queue of one packet. What waits is what the disc has
// admitted and the device has not begun to send; moves from one to the other are no change.

#pragma once

#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdint>
#include <ostream>
#include <vector>

class Port
{
  public:
    // What happens before `from` (handshakes) is not looked at.
    void Watch(ns3::Ptr<ns3::NetDevice> device, ns3::Ptr<ns3::QueueDisc> disc, ns3::Time from)
    {
        m_from = from;
        disc->TraceConnectWithoutContext("Enqueue", ns3::MakeCallback(&Port::OnEnqueue, this));
        device->TraceConnectWithoutContext("PhyTxBegin", ns3::MakeCallback(&Port::OnBegin, this));
        device->TraceConnectWithoutContext("PhyTxEnd", ns3::MakeCallback(&Port::OnEnd, this));
    }

    void Print(std::ostream& out) const
    {
        Print(out, "over_time", m_timeAt);
        Print(out, "at_enqueue", m_foundAt);
        Print(out, "at_change", m_changesTo);
        out << ",\"queue_max\":" << m_most;
    }

  private:
    void OnEnqueue(ns3::Ptr<const ns3::QueueDiscItem>)
    {
        if (ns3::Simulator::Now() < m_from)
        {
            ++m_ignored;
            return;
        }
        if (!m_seen)
        {
            m_seen = true;
            m_changedAt = ns3::Simulator::Now();
        }
        Bump(m_foundAt, m_waiting, 1);
        Observe();
        if (m_busy)
        {
            Change(m_waiting + 1);
        }
        else
        {
            m_direct = true; // its transmission begins before anything else happens
        }
    }

    void OnBegin(ns3::Ptr<const ns3::Packet>)
    {
        m_busy = true;
        if (m_ignored > 0)
        {
            --m_ignored;
        }
        else if (m_direct)
        {
            m_direct = false;
        }
        else
        {
            Observe();
            Change(m_waiting - 1);
        }
    }

    void OnEnd(ns3::Ptr<const ns3::Packet>)
    {
        m_busy = false;
    }

    void Observe()
    {
        Bump(m_timeAt, m_waiting, (ns3::Simulator::Now() - m_changedAt).GetPicoSeconds());
        m_changedAt = ns3::Simulator::Now();
    }

    void Change(uint32_t to)
    {
        m_waiting = to;
        m_most = std::max(m_most, to);
        Bump(m_changesTo, to, 1);
    }

    static void Bump(std::vector<uint64_t>& histogram, uint32_t at, uint64_t by)
    {
        if (at >= histogram.size())
        {
            histogram.resize(at + 1, 0);
        }
        histogram[at] += by;
    }

    static void Print(std::ostream& out, const char* name, const std::vector<uint64_t>& histogram)
    {
        double sum = 0;
        double weight = 0;
        for (size_t k = 0; k < histogram.size(); ++k)
        {
            sum += static_cast<double>(k) * static_cast<double>(histogram[k]);
            weight += static_cast<double>(histogram[k]);
        }
        size_t p95 = 0;
        double below = 0;
        while (p95 + 1 < histogram.size() && (below += static_cast<double>(histogram[p95])) < 0.95 * weight)
        {
            ++p95;
        }
        out << ",\"queue_mean_" << name << "\":" << (weight > 0 ? sum / weight : 0) << ",\"queue_p95_" << name
            << "\":" << p95;
    }

    ns3::Time m_from;
    ns3::Time m_changedAt;
    bool m_seen{false};
    bool m_busy{false};
    bool m_direct{false};
    uint64_t m_ignored{0};
    uint32_t m_waiting{0};
    uint32_t m_most{0};
    std::vector<uint64_t> m_timeAt; // picoseconds spent with k packets waiting
    std::vector<uint64_t> m_foundAt;
    std::vector<uint64_t> m_changesTo;
};
