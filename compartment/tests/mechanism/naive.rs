//! The rules of admission once more, as plainly as they can be said: one thread, no atomics,
//! nothing kept that can be computed.

use std::collections::BTreeMap;

use compartment::policy::{Policy, Unknown};
use compartment::{
    Balance, Caller, Class, Figures, Histogram, Limit, Mode, Name, QUEUE_STANDING_US, Rejection,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Admitted,
    Waits,
    Refused(Rejection, String),
}

/// Those who share their turns: one tenant, or all callers without one.
type Group = (Option<String>, bool);

#[derive(Clone, Debug)]
struct Waiter {
    id: u64,
    group: Group,
    useful_until_us: u64,
}

#[derive(Clone, Debug)]
struct Box_ {
    limit: Limit,
    reserved: u32,
    n: u32,
    pending: u32,
    peak: u32,
    admitted: u64,
    completed: u64,
    left_queue: u64,
    queued: u32,
    rejected: BTreeMap<Rejection, u64>,
    class_reserve: u32,
    /// In order of arrival.
    waiters: Vec<Waiter>,
    /// The lowest comes first.
    turns: BTreeMap<Group, u64>,
    next_turn: u64,
    stood_since_us: Option<u64>,
    /// Units left to borrow with, how many come and what one slot costs in a tenth of a
    /// millisecond.
    credit: i128,
    refill: i128,
    price: i128,
    idle_us: u64,
    busy_us: u64,
    saturated_us: u64,
    in_flight_us: u64,
    hold: Histogram,
    wait: Histogram,
    mode: Mode,
    /// No policy names it any more.
    unnamed: bool,
    /// Of a tenant's part: those that are streams, in flight and among the ghosts.
    streams: [u32; 2],
    candidate: Option<u32>,
    queue: u32,
    /// Those whom the limit would have admitted, and the candidate.
    ghosts: [u32; 2],
    shadow_rejected: BTreeMap<Rejection, u64>,
    candidate_rejected: u64,
}

impl Default for Box_ {
    fn default() -> Self {
        Self {
            limit: Limit::CLOSED,
            reserved: 0,
            n: 0,
            pending: 0,
            peak: 0,
            admitted: 0,
            completed: 0,
            left_queue: 0,
            queued: 0,
            rejected: BTreeMap::new(),
            class_reserve: 0,
            waiters: Vec::new(),
            turns: BTreeMap::new(),
            next_turn: 0,
            stood_since_us: None,
            credit: 0,
            refill: 0,
            price: 1,
            idle_us: 0,
            busy_us: 0,
            saturated_us: 0,
            in_flight_us: 0,
            hold: Histogram::new(),
            wait: Histogram::new(),
            mode: Mode::Enforce,
            unnamed: false,
            streams: [0, 0],
            candidate: None,
            queue: 0,
            ghosts: [0, 0],
            shadow_rejected: BTreeMap::new(),
            candidate_rejected: 0,
        }
    }
}

impl Box_ {
    /// What is enforced.
    fn slots(&self) -> Option<u32> {
        self.limit.slots().filter(|_| self.mode == Mode::Enforce)
    }

    fn closed(&self) -> bool {
        self.slots() == Some(0)
    }

    /// Time passes while nothing happens.
    fn live(&mut self, us: u64) {
        let full = self
            .limit
            .slots()
            .is_some_and(|slots| slots > 0 && self.n >= slots);
        match (self.n, full) {
            (0, _) => self.idle_us += us,
            (_, true) => self.saturated_us += us,
            (_, false) => self.busy_us += us,
        }
        self.in_flight_us += u64::from(self.n - self.pending) * us;
    }

    fn full(&self) -> bool {
        self.slots().is_some_and(|slots| self.n >= slots)
    }

    fn free(&self) -> u32 {
        self.slots()
            .map_or(u32::MAX, |slots| slots.saturating_sub(self.n))
    }

    fn borrowed(&self) -> u32 {
        self.n.saturating_sub(self.reserved)
    }

    fn earn(&mut self, refill: i128, price: i128) {
        if (refill, price) == (self.refill, self.price) {
            return;
        }
        self.credit = if self.refill == 0 {
            100_000 * refill
        } else {
            self.credit * refill / self.refill
        };
        (self.refill, self.price) = (refill, price);
    }

    fn pay(&mut self, ticks: i128) {
        let by = self.refill - self.price * i128::from(self.borrowed());
        self.credit = (self.credit + by * ticks).min(100_000 * self.refill);
    }

    fn places_of(&self, group: &Group) -> usize {
        let of_group = self.waiters.iter().filter(|waiter| waiter.group == *group);
        of_group.count()
    }

    fn join(&mut self, waiter: Waiter) {
        self.next_turn += 1;
        let turn = self.next_turn;
        self.turns.entry(waiter.group.clone()).or_insert(turn);
        self.waiters.push(waiter);
    }

    fn remove(&mut self, id: u64) {
        self.waiters.retain(|waiter| waiter.id != id);
        let waiters = &self.waiters;
        self.turns
            .retain(|group, _| waiters.iter().any(|waiter| waiter.group == *group));
        if self.waiters.is_empty() {
            self.stood_since_us = None;
        }
    }

    /// Whose turn it is for one of `free` slots.
    fn next(&self, free: u32, now_us: u64) -> Option<Waiter> {
        let turns = self.turns.iter();
        let may = turns.filter(|((_, sheddable), _)| !sheddable || free > self.class_reserve);
        let (group, _) = may.min_by_key(|(_, turn)| **turn)?;
        let mut of_group = self.waiters.iter().filter(|waiter| waiter.group == *group);
        let newest = self
            .stood_since_us
            .is_some_and(|since_us| now_us - since_us >= QUEUE_STANDING_US);
        let next = if newest {
            of_group.next_back()
        } else {
            of_group.next()
        };
        next.cloned()
    }

    fn had_turn(&mut self, group: &Group, now_us: u64) {
        self.next_turn += 1;
        let turn = self.next_turn;
        self.turns
            .entry(group.clone())
            .and_modify(|next| *next = turn);
        if !self.waiters.is_empty() {
            self.stood_since_us.get_or_insert(now_us);
        }
    }

    /// Who gives way in a full line.
    fn gives_way(&self, newcomer: &Group) -> Option<u64> {
        let sizes = self.turns.iter();
        let sizes = sizes.map(|(group, turn)| (self.places_of(group), *turn, group.1, group));
        let (most, _, _, group) = sizes.max()?;
        let mut of_group = self.waiters.iter().filter(|waiter| waiter.group == *group);
        let newest = of_group.next_back()?.id;
        (self.places_of(newcomer) + 1 < most).then_some(newest)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Waiting,
    Granted,
    NoSpare,
    Closed,
    GaveWay,
    TooLate,
}

/// What a policy and the caller say of waiting.
#[derive(Clone, Copy, Debug)]
struct Asks {
    class_reserve: u32,
    queue: usize,
    useful_until_us: u64,
}

/// One request that holds or waits.
#[derive(Clone, Debug)]
struct Request {
    tenant: Option<String>,
    cell: Option<String>,
    route: String,
    /// The route itself also of a stream on it.
    home: String,
    stream: bool,
    /// It has its slot of the route.
    held: bool,
    /// When the slot of the route was exchanged.
    moved_us: u64,
    upstream: String,
    share: Option<u64>,
    sheddable: bool,
    turn: Turn,
    class_reserve: u32,
    /// When it was admitted, or came to wait.
    since_us: u64,
    /// In which ghosts it is: of the route by its limit and by the candidate, of the cell.
    shades: [bool; 3],
}

#[derive(Debug, Default)]
pub(crate) struct Naive {
    boxes: BTreeMap<String, Box_>,
    requests: BTreeMap<u64, Request>,
    spare_limit: u32,
    nominal: u64,
    now_us: u64,
}

impl Naive {
    fn at(&mut self, key: &str) -> &mut Box_ {
        self.boxes.entry(key.to_owned()).or_default()
    }

    fn spare_used(&self) -> u32 {
        let routes = self.boxes.iter().filter(|(key, _)| is_route(key));
        routes.map(|(_, one)| one.borrowed()).sum()
    }

    pub(crate) fn spare(&self) -> (u32, u32) {
        (self.spare_limit, self.spare_used())
    }

    /// Left and full, in slot-milliseconds.
    pub(crate) fn credit_ms(&self, key: &str) -> (i64, i64) {
        let one = &self.boxes[key];
        let ms = |units: i128| i64::try_from(units / one.price / 10).unwrap();
        (ms(one.credit), ms(100_000 * one.refill))
    }

    pub(crate) fn compartments(&self) -> usize {
        self.boxes.len()
    }

    fn spare_for(&self, key: &str, sheddable: bool) -> bool {
        let free = self.spare_limit.saturating_sub(self.spare_used());
        let route = &self.boxes[key];
        if route.unnamed {
            return true;
        }
        let paid = route.credit > 0 || route.mode != Mode::Enforce || is_of_streams(key);
        paid && free > 0 && !(sheddable && 5 * free <= self.spare_limit)
    }

    /// Time passes for those who borrow.
    pub(crate) fn tick(&mut self, now_us: u64) {
        let ticks = i128::from(now_us / 100 - self.now_us / 100);
        let us = now_us - self.now_us;
        self.boxes.values_mut().for_each(|one| one.live(us));
        self.now_us = now_us;
        let routes = self.boxes.iter_mut().filter(|(key, _)| is_route(key));
        routes.for_each(|(_, one)| one.pay(ticks));
    }

    pub(crate) fn apply(&mut self, policy: &Policy) {
        let before = self.spare_limit;
        self.spare_limit = before.min(policy.gateway.spare);
        let now_us = self.now_us;
        // The one compartment that is there before the first policy.
        let gateway = self
            .boxes
            .entry("gateway".to_owned())
            .or_insert_with(|| Box_ {
                idle_us: now_us,
                ..Box_::default()
            });
        gateway.limit = Limit::new(policy.gateway.capacity).unwrap();
        for upstream in &policy.upstreams {
            self.at(&format!("upstream/{}", upstream.id)).limit = upstream.limit;
        }
        for tenant in &policy.tenants {
            self.at(&format!("tenant/{}", tenant.id)).limit = tenant.limit;
        }
        if let Some(Unknown::Shared { limit }) = policy.identify.as_ref().map(|i| i.unknown) {
            self.at("tenant/_unknown").limit = limit;
        }
        let named: Vec<_> = policy
            .routes
            .iter()
            .map(|r| format!("route/{}", r.id))
            .collect();
        let routes = self.boxes.iter_mut().filter(|(key, _)| is_route(key));
        for (key, one) in routes.filter(|(key, _)| !is_of_streams(key)) {
            if !named.contains(key) {
                (one.reserved, one.unnamed, one.price) = (0, true, 0);
            }
        }
        let borrowers = policy.routes.iter().filter(|route| {
            let own = &route.compartment;
            own.limit.slots().is_none_or(|slots| slots > own.reserved)
        });
        let (spare, borrowers) = (policy.gateway.spare, borrowers.count());
        let (refill, price) = match (spare, borrowers) {
            (0, _) | (_, 0) => (0, 1),
            (spare, borrowers) => (i128::from(spare), borrowers as i128),
        };
        for (index, route) in policy.routes.iter().enumerate() {
            let key = format!("route/{}", route.id);
            let one = self.at(&key);
            one.limit = route.compartment.limit;
            one.reserved = route.compartment.reserved;
            one.class_reserve = route.compartment.class_reserve;
            one.earn(refill, price);
            one.queue = route.compartment.queue;
            one.mode = route.compartment.mode;
            one.unnamed = false;
            one.candidate = route.compartment.candidate;
            let mode = one.mode;
            self.wake(&key);
            self.cells(policy, index, &key, mode);
        }
        for route in &policy.routes {
            if let Some(streams) = route.compartment.stream {
                let one = self.at(&format!("route/{}/stream", route.id));
                (one.limit, one.mode) = (streams.limit, route.compartment.mode);
            }
        }
        self.spare_limit = policy.gateway.spare;
    }

    fn cells(&mut self, policy: &Policy, route: usize, key: &str, mode: Mode) {
        let prefix = format!("{key}/tenant/");
        for (key, one) in self.boxes.iter_mut() {
            if let Some(tenant) = key.strip_prefix(&prefix) {
                one.limit = cap(policy, route, tenant).unwrap_or(Limit::UNLIMITED);
                one.mode = mode;
            }
        }
    }

    /// Who has the turn for one of `free` slots; those on the way who come too late go.
    fn next(&mut self, key: &str, free: u32) -> Option<Waiter> {
        let now_us = self.now_us;
        while let Some(next) = self.at(key).next(free, now_us) {
            if now_us < next.useful_until_us {
                return Some(next);
            }
            self.end_wait(key, next.id, Turn::TooLate);
        }
        None
    }

    fn end_wait(&mut self, key: &str, id: u64, turn: Turn) {
        self.at(key).remove(id);
        self.requests.get_mut(&id).unwrap().turn = turn;
    }

    fn grant(&mut self, key: &str, next: &Waiter) {
        let now_us = self.now_us;
        self.end_wait(key, next.id, Turn::Granted);
        let one = self.at(key);
        one.pending += 1;
        one.had_turn(&next.group, now_us);
    }

    /// After a route's numbers changed.
    fn wake(&mut self, key: &str) {
        while let Some(first) = self.at(key).waiters.first().map(|waiter| waiter.id) {
            let one = self.at(key);
            if one.closed() {
                self.end_wait(key, first, Turn::Closed);
                continue;
            }
            let (free, borrows) = (one.free(), one.n >= one.reserved);
            if free == 0 {
                return;
            }
            let Some(next) = self.next(key, free) else {
                return;
            };
            if borrows && !self.spare_for(key, next.group.1) {
                self.end_wait(key, next.id, Turn::NoSpare);
            } else {
                self.at(key).n += 1;
                self.grant(key, &next);
            }
        }
    }

    fn refuse_at_route(&mut self, why: Rejection, request: &Request) -> Answer {
        let one = self.at(&request.route);
        if one.candidate.is_some_and(|slots| one.ghosts[1] >= slots) {
            one.candidate_rejected += 1;
        }
        self.refuse(why, &request.route.clone())
    }

    fn count_unenforced(&mut self, request: &Request, why: Option<Rejection>, candidate: bool) {
        let cell = request.cell.clone();
        for key in [Some(request.route.clone()), cell].into_iter().flatten() {
            let one = self.at(&key);
            if let Some(why) = why {
                *one.shadow_rejected.entry(why).or_default() += 1;
            }
            one.candidate_rejected += u64::from(candidate);
        }
    }

    /// What limits that are not enforced say of a request that is admitted.
    fn judge(&mut self, request: &mut Request) {
        let route = self.at(&request.route).clone();
        let shadow = route.mode == Mode::Shadow;
        let cell = request.cell.clone().map(|key| self.at(&key).clone());
        let capped = cell.as_ref().is_some_and(|cell| {
            shadow
                && cell
                    .limit
                    .slots()
                    .is_some_and(|slots| cell.ghosts[0] >= slots)
        });
        let stream = request.stream;
        let calls = cell.as_ref().map_or(0, |cell| {
            cell.ghosts[0] - cell.streams[1] + u32::from(!stream)
        });
        let candidate = route
            .candidate
            .is_some_and(|slots| route.ghosts[1] >= slots);
        let by_limit = || -> Option<Rejection> {
            if shadow && route.limit == Limit::CLOSED {
                return Some(Rejection::Closed);
            }
            if capped {
                let shut = cell
                    .as_ref()
                    .is_some_and(|cell| cell.limit == Limit::CLOSED);
                let why = [Rejection::TenantRouteFull, Rejection::Closed];
                return Some(why[usize::from(shut)]);
            }
            let limit = route.limit.slots().filter(|_| shadow)?;
            let free = limit.saturating_sub(route.ghosts[0]);
            let share = request.share.filter(|_| request.cell.is_some());
            let share = share.map(|share| (share * u64::from(free) / 1_000_000).max(1));
            let kept = request.sheddable && free <= request.class_reserve;
            if share.is_some_and(|most| u64::from(calls) > most) {
                Some(Rejection::TenantShare)
            } else if free > 0 && !kept {
                None
            } else if route.queue > 0 {
                (route.ghosts[0] >= limit + route.queue).then_some(Rejection::QueueFull)
            } else if free == 0 {
                Some([Rejection::RouteFull, Rejection::StreamFull][usize::from(stream)])
            } else {
                Some(Rejection::ClassReserve)
            }
        };
        let why = by_limit();
        request.shades = [
            why.is_none(),
            !candidate,
            why.is_none() && request.cell.is_some(),
        ];
        self.shade(request, 1);
        if why.is_some() || candidate {
            self.count_unenforced(request, why, candidate);
        }
    }

    fn leave_ghosts(&mut self, request: &Request) {
        self.shade(request, -1);
    }

    fn shade(&mut self, request: &Request, by: i32) {
        let add = |count: &mut u32, has: bool| {
            *count = u32::try_from(i32::try_from(*count).unwrap() + by * i32::from(has)).unwrap();
        };
        let [by_limit, by_candidate, in_cell] = request.shades;
        let route = self.at(&request.route);
        add(&mut route.ghosts[0], by_limit);
        add(&mut route.ghosts[1], by_candidate);
        if let Some(cell) = request.cell.clone() {
            let cell = self.at(&cell);
            add(&mut cell.ghosts[0], in_cell);
            add(&mut cell.streams[1], in_cell && request.stream);
        }
    }

    fn mode_of(&self, key: &str) -> Mode {
        let route = key.split("/tenant/").next().unwrap();
        self.boxes[route].mode
    }

    fn refuse(&mut self, why: Rejection, key: &str) -> Answer {
        *self.at(key).rejected.entry(why).or_default() += 1;
        Answer::Refused(why, key.to_owned())
    }

    /// Takes a slot where there is one, else says why not.
    fn take(&mut self, key: &str, full: Rejection) -> Result<(), Answer> {
        let one = self.at(key);
        if one.closed() {
            return Err(self.refuse(Rejection::Closed, key));
        }
        if one.full() {
            return Err(self.refuse(full, key));
        }
        one.n += 1;
        Ok(())
    }

    pub(crate) fn enter(
        &mut self,
        id: u64,
        policy: &Policy,
        route: usize,
        caller: Caller,
        (mean_hold_us, stream): (u64, bool),
    ) -> Answer {
        let asked = &policy.routes[route];
        let home = format!("route/{}", asked.id);
        let key = if stream {
            format!("{home}/stream")
        } else {
            home.clone()
        };
        let tenant = caller.tenant.map(|index| tenant_name(policy, index));
        let of_calls = |number: u32| if stream { 0 } else { number };
        let share = asked.compartment.tenant_share.filter(|_| !stream);
        let watched = self.at(&home).mode == Mode::Shadow || self.at(&home).candidate.is_some();
        let celled = caller.route_limit.is_some() || share.is_some() || watched;
        let mut request = Request {
            tenant: None,
            cell: None,
            upstream: format!("upstream/{}", policy.upstreams[asked.upstream].id),
            share: share.map(|share| u64::from(share.0)),
            sheddable: caller.class == Class::Sheddable,
            turn: Turn::Waiting,
            class_reserve: of_calls(asked.compartment.class_reserve),
            since_us: self.now_us,
            shades: [false; 3],
            route: key.clone(),
            home,
            stream,
            held: false,
            moved_us: 0,
        };
        let answer = self.climb(
            id,
            &mut request,
            tenant,
            celled.then(|| caller.route_limit.unwrap_or(Limit::UNLIMITED)),
            Asks {
                class_reserve: of_calls(asked.compartment.class_reserve),
                queue: of_calls(asked.compartment.queue) as usize,
                useful_until_us: caller
                    .until_us
                    .unwrap_or(u64::MAX)
                    .saturating_sub(mean_hold_us),
            },
        );
        match answer {
            Ok(answer) => {
                self.requests.insert(id, request);
                answer
            }
            Err(answer) => {
                self.give_back(&request, false, false);
                answer
            }
        }
    }

    fn climb(
        &mut self,
        id: u64,
        request: &mut Request,
        tenant: Option<Name>,
        cell_limit: Option<Limit>,
        asks: Asks,
    ) -> Result<Answer, Answer> {
        let key = request.route.clone();
        if let Some(tenant) = tenant {
            let own = format!("tenant/{tenant}");
            self.take(&own, Rejection::TenantFull)?;
            request.tenant = Some(own);
            if let Some(limit) = cell_limit {
                let cell = format!("{}/tenant/{tenant}", request.home);
                let mode = self.at(&request.home).mode;
                let one = self.at(&cell);
                (one.limit, one.mode) = (limit, mode);
                if (one.closed() || one.full()) && self.at(&key).closed() {
                    return Err(self.refuse_at_route(Rejection::Closed, request));
                }
                self.take(&cell, Rejection::TenantRouteFull)?;
                request.cell = Some(cell.clone());
                self.at(&cell).streams[0] += u32::from(request.stream);
                if !self.at(&key).closed() && self.over_share(request, 0) {
                    return Err(self.refuse(Rejection::TenantShare, &cell));
                }
            }
        }
        let now_us = self.now_us;
        let one = self.at(&key);
        if one.closed() {
            return Err(self.refuse_at_route(Rejection::Closed, request));
        }
        let free = one.free();
        let kept = |reserve| request.sheddable && free <= reserve;
        let in_line = !one.waiters.is_empty() || (asks.queue > 0 && kept(asks.class_reserve));
        let reserve = if in_line {
            one.class_reserve
        } else {
            asks.class_reserve
        };
        if free == 0 || kept(reserve) {
            if asks.queue == 0 {
                let full = free == 0;
                let no_slot = [Rejection::RouteFull, Rejection::StreamFull];
                let no_slot = no_slot[usize::from(request.stream)];
                let why = [Rejection::ClassReserve, no_slot][usize::from(full)];
                return Err(self.refuse_at_route(why, request));
            }
            if now_us >= asks.useful_until_us {
                return Err(self.refuse_at_route(Rejection::DeadlineTooShort, request));
            }
            let group = (request.tenant.clone(), request.sheddable);
            if one.waiters.len() >= asks.queue {
                match one.gives_way(&group) {
                    Some(other) if one.waiters.len() == asks.queue => {
                        self.end_wait(&key, other, Turn::GaveWay);
                    }
                    _ => return Err(self.refuse_at_route(Rejection::QueueFull, request)),
                }
            }
            let one = self.at(&key);
            one.join(Waiter {
                id,
                group,
                useful_until_us: asks.useful_until_us,
            });
            one.queued += 1;
            self.pend(request, 1);
            return Ok(Answer::Waits);
        }
        if one.n >= one.reserved && !self.spare_for(&key, request.sheddable) {
            return Err(self.no_spare(request));
        }
        self.at(&key).n += 1;
        let rest = self.rest(request);
        if rest.is_err() {
            self.leave_route(&key);
        }
        rest.map(|()| Answer::Admitted)
    }

    /// `own`: slots of the route that the asking request holds itself.
    fn over_share(&mut self, request: &Request, own: u32) -> bool {
        let (Some(cell), Some(share)) = (&request.cell, request.share) else {
            return false;
        };
        let held = self.at(cell).n - self.at(cell).streams[0];
        let route = self.at(&request.route);
        let Some(slots) = route.slots() else {
            return false;
        };
        let free = u64::from(slots.saturating_sub(route.n - own));
        u64::from(held) > (share * free / 1_000_000).max(1)
    }

    fn no_spare(&mut self, request: &Request) -> Answer {
        let upstream = request.upstream.clone();
        let one = self.at(&upstream);
        if one.closed() {
            self.refuse(Rejection::Closed, &upstream)
        } else if one.full() {
            self.refuse(Rejection::UpstreamFull, &upstream)
        } else if self.at("gateway").full() {
            self.refuse(Rejection::GatewayFull, "gateway")
        } else {
            self.refuse(Rejection::SpareExhausted, "gateway")
        }
    }

    /// With a slot of the route in hand.
    fn rest(&mut self, request: &mut Request) -> Result<(), Answer> {
        if self.over_share(request, 1) {
            return Err(self.refuse(Rejection::TenantShare, request.cell.as_ref().unwrap()));
        }
        self.take(&request.upstream, Rejection::UpstreamFull)?;
        if let Err(answer) = self.take("gateway", Rejection::GatewayFull) {
            self.nominal += 1;
            self.at(&request.upstream).n -= 1;
            return Err(answer);
        }
        self.judge(request);
        request.held = true;
        request.since_us = self.now_us;
        for key in keys(request, true) {
            let one = self.at(&key);
            one.admitted += 1;
            one.peak = one.peak.max(one.n);
        }
        Ok(())
    }

    fn pend(&mut self, request: &Request, by: i64) {
        for key in keys(request, false) {
            let one = self.at(&key);
            one.pending = u32::try_from(i64::from(one.pending) + by).unwrap();
        }
    }

    fn leave_route(&mut self, key: &str) {
        let (slots, used) = self.spare();
        let mut left = self.at(key).clone();
        left.n -= 1;
        let next = self.next(key, left.free());
        let one = self.at(key);
        let above = one.slots().is_some_and(|slots| one.n > slots);
        let paid = one.credit > 0 || one.mode != Mode::Enforce;
        let borrowed = one.borrowed() > 0;
        let unnamed = one.unnamed;
        let anew = |next: &Waiter| unnamed || (used <= slots && !next.group.1 && paid);
        let passes = |next: &Waiter| !above && (!borrowed || anew(next));
        if let Some(next) = next.filter(passes) {
            self.grant(key, &next);
        } else {
            self.at(key).n -= 1;
            self.wake(key);
        }
    }

    fn give_back(&mut self, request: &Request, route: bool, counted: bool) {
        if counted {
            let held_us = self.now_us - request.since_us;
            for key in keys(request, true) {
                if key == request.route {
                    continue;
                }
                self.at(&key).completed += 1;
                self.at(&key).hold.record(held_us);
            }
            self.at("gateway").n -= 1;
            self.at(&request.upstream).n -= 1;
        }
        if route {
            self.give_route(request, counted);
        }
        if counted {
            let in_cell = [false, false, request.shades[2]];
            let request = Request {
                shades: in_cell,
                ..request.clone()
            };
            self.leave_ghosts(&request);
        }
        if let Some(cell) = &request.cell {
            self.at(cell).streams[0] -= u32::from(request.stream);
        }
        for key in keys(request, false) {
            self.at(&key).n -= 1;
        }
    }

    fn give_route(&mut self, request: &Request, counted: bool) {
        if counted {
            let held_us = self.now_us - request.since_us.max(request.moved_us);
            let one = self.at(&request.route);
            one.completed += 1;
            one.hold.record(held_us);
            let [by_limit, by_candidate, _] = request.shades;
            let of_route = Request {
                shades: [by_limit, by_candidate, false],
                ..request.clone()
            };
            self.leave_ghosts(&of_route);
        }
        self.leave_route(&request.route);
    }

    pub(crate) fn leave(&mut self, id: u64) {
        let request = self.requests.remove(&id).unwrap();
        self.give_back(&request, request.held, true);
    }

    /// A slot of the route's streams for one of its own.
    pub(crate) fn move_to(&mut self, id: u64, sheddable: bool) -> Answer {
        let mut request = self.requests[&id].clone();
        if request.stream {
            return Answer::Admitted;
        }
        let key = format!("{}/stream", request.home);
        let before = request.shades;
        loop {
            let one = self.at(&key);
            if one.closed() {
                return self.refuse(Rejection::Closed, &key);
            }
            if one.full() {
                return self.refuse(Rejection::StreamFull, &key);
            }
            if self.spare_for(&key, sheddable) {
                break;
            }
            if !request.held {
                return self.refuse(Rejection::SpareExhausted, "gateway");
            }
            // Perhaps its own was missing.
            self.give_route(&request, true);
            (request.held, request.shades) = (false, [false, false, before[2]]);
            self.requests.insert(id, request.clone());
        }
        let one = self.at(&key);
        one.n += 1;
        if request.held {
            self.give_route(&request, true);
        }
        self.arrive_as_stream(&mut request, &key, before);
        self.requests.insert(id, request);
        Answer::Admitted
    }

    fn arrive_as_stream(&mut self, request: &mut Request, key: &str, before: [bool; 3]) {
        let now_us = self.now_us;
        let one = self.at(key);
        one.admitted += 1;
        one.peak = one.peak.max(one.n);
        let full = one
            .limit
            .slots()
            .is_some_and(|slots| one.ghosts[0] >= slots);
        let would_refuse = before[0] && one.mode == Mode::Shadow && full;
        let why = [Rejection::StreamFull, Rejection::Closed];
        let why = why[usize::from(one.limit == Limit::CLOSED)];
        // As a call it leaves the tenant's ghosts, and comes back as a stream if it would be one.
        request.shades = [false, false, before[2]];
        self.leave_ghosts(request);
        if let Some(cell) = &request.cell {
            self.at(cell).streams[0] += 1;
        }
        request.route = key.to_owned();
        (request.stream, request.held, request.moved_us) = (true, true, now_us);
        let stays = before[0] && !would_refuse;
        request.shades = [stays, before[0], before[2] && !would_refuse];
        self.shade(request, 1);
        if would_refuse {
            self.count_unenforced(request, Some(why), false);
        }
    }

    /// What a waiter is told when it asks.
    pub(crate) fn settle(&mut self, id: u64) -> Answer {
        let mut request = self.requests[&id].clone();
        let waited_us = self.now_us - request.since_us;
        let key = request.route.clone();
        let answer = match request.turn {
            Turn::Waiting => return Answer::Waits,
            Turn::Granted => self
                .rest(&mut request)
                .map_or_else(|answer| answer, |()| Answer::Admitted),
            Turn::NoSpare => self.no_spare(&request),
            Turn::Closed => self.refuse(Rejection::Closed, &key),
            Turn::GaveWay => self.refuse(Rejection::QueueFull, &key),
            Turn::TooLate => self.refuse(Rejection::DeadlineTooShort, &key),
        };
        let granted = request.turn == Turn::Granted;
        self.end(&request, granted, waited_us);
        if answer == Answer::Admitted {
            self.requests.insert(id, request);
            return answer;
        }
        if matches!(request.turn, Turn::Granted | Turn::NoSpare) {
            self.at(&key).left_queue += 1;
        }
        self.requests.remove(&id);
        self.give_back(&request, granted, false);
        answer
    }

    fn end(&mut self, request: &Request, granted: bool, waited_us: u64) {
        let one = self.at(&request.route);
        one.wait.record(waited_us);
        one.queued -= 1;
        one.pending -= u32::from(granted);
        self.pend(request, -1);
    }

    pub(crate) fn give_up(&mut self, id: u64, why: Rejection) -> Answer {
        let request = self.requests[&id].clone();
        if request.turn != Turn::Waiting {
            return self.settle(id);
        }
        let answer = self.refuse(why, &request.route);
        self.depart(id, &request);
        answer
    }

    fn depart(&mut self, id: u64, request: &Request) {
        self.at(&request.route).remove(id);
        let waited_us = self.now_us - request.since_us;
        self.end(request, request.turn == Turn::Granted, waited_us);
        self.requests.remove(&id);
        self.give_back(request, request.turn == Turn::Granted, false);
    }

    pub(crate) fn abandon(&mut self, id: u64) {
        let request = self.requests[&id].clone();
        self.at(&request.route).left_queue += 1;
        self.depart(id, &request);
    }

    fn credit_shown(&self, key: &str) -> Option<Balance> {
        let one = &self.boxes[key];
        let pays = is_route(key) && !is_of_streams(key) && !one.unnamed && one.refill > 0;
        let borrows = one.limit.slots().is_none_or(|slots| slots > one.reserved);
        (pays && borrows).then(|| {
            let (slot_ms, full_slot_ms) = self.credit_ms(key);
            Balance {
                slot_ms,
                full_slot_ms,
            }
        })
    }

    /// What the compartment of these figures should say.
    pub(crate) fn figures(&self, seen: &Figures) -> Figures {
        let one = &self.boxes[&seen.key];
        let in_flight = one.n - one.pending;
        let refusals: u64 = one.rejected.values().sum();
        let level = seen.key.parse::<compartment::Key>().unwrap().level();
        Figures {
            reserved: one.reserved,
            in_flight,
            queued: one.queued,
            left_queue: one.left_queue,
            borrowed: if is_route(&seen.key) {
                in_flight.saturating_sub(one.reserved)
            } else {
                0
            },
            peak: one.peak,
            saturation: match one.limit.slots() {
                None => 0.0,
                Some(0) => 1.0,
                Some(slots) => f64::from(in_flight) / f64::from(slots),
            },
            arrived: one.admitted + refusals + u64::from(one.queued) + one.left_queue,
            admitted: one.admitted,
            completed: one.completed,
            rejected: one.rejected.clone(),
            mode: self.mode_of(&seen.key),
            candidate: one.candidate,
            peak_recent: one.peak.max(in_flight),
            shadow_rejected: one.shadow_rejected.clone(),
            candidate_rejected: one.candidate_rejected,
            idle_us: one.idle_us,
            busy_us: one.busy_us,
            saturated_us: one.saturated_us,
            in_flight_us: one.in_flight_us,
            hold: one.hold.clone(),
            wait: one.wait.clone(),
            nominal: if seen.key == "gateway" {
                self.nominal
            } else {
                0
            },
            credit: self.credit_shown(&seen.key),
            ..Figures::new(seen.key.clone(), level, one.limit)
        }
    }
}

fn is_of_streams(key: &str) -> bool {
    key.ends_with("/stream")
}

fn is_route(key: &str) -> bool {
    key.starts_with("route/") && !key.contains("/tenant/")
}

/// The tenant levels of a request, and with `all` the shared ones.
fn keys(request: &Request, all: bool) -> Vec<String> {
    let shared = [
        request.route.clone(),
        request.upstream.clone(),
        "gateway".to_owned(),
    ];
    let own = request.tenant.iter().chain(&request.cell).cloned();
    own.chain(shared.into_iter().filter(|_| all)).collect()
}

fn tenant_name(policy: &Policy, index: u32) -> Name {
    let tenant = policy.tenants.get(index as usize);
    tenant.map_or_else(Name::unknown_tenant, |tenant| tenant.id.clone())
}

/// The tighter of the route's cap and the plan's.
fn cap(policy: &Policy, route: usize, tenant: &str) -> Option<Limit> {
    let own = policy.routes[route].compartment.tenant_limit;
    let tenant = policy.tenants.iter().find(|one| one.id.as_str() == tenant);
    let plan = tenant
        .and_then(|tenant| tenant.plan)
        .map(|plan| &policy.plans[plan]);
    let planned = plan.and_then(|plan| plan.routes.iter().find(|(index, _)| *index == route));
    let caps = own.into_iter().chain(planned.map(|(_, limit)| *limit));
    caps.min_by_key(|limit| limit.slots().unwrap_or(u32::MAX))
}
