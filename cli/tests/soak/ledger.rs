//! Random policies, and which limits may have been in force when.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::troubled::{self, Troubled};

/// No permit is older when its call arrives upstream: `total` of every route, and a second for a
/// busy machine.
const ADMITTED_BEFORE: Duration = Duration::from_secs(4);
pub(crate) const ROUTES: &[&str] = &["a", "b", "heads", "line", "live", "storm", "flap"];
pub(crate) const TENANTS: &[&str] = &["t0", "t1", "t2", "t3"];

/// By key; a key that is absent has no limit.
type Limits = BTreeMap<String, u32>;

/// One policy.
pub(crate) struct Pushed {
    pub(crate) text: String,
    pub(crate) limits: Limits,
}

#[derive(Clone, Copy)]
struct InForce {
    /// `None`: no limit.
    limit: Option<u32>,
    until: Option<Instant>,
}

/// What was in force, and may be still.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<HashMap<String, Vec<InForce>>>);

impl Ledger {
    /// From now on these may be in force, beside those before.
    pub(crate) fn begin(&self, limits: &Limits) {
        let mut all = self.0.lock().unwrap();
        for key in keys() {
            let limit = limits.get(&key).copied();
            all.entry(key)
                .or_default()
                .push(InForce { limit, until: None });
        }
    }

    /// The last ones are in force; those before are not any more.
    pub(crate) fn confirm(&self) {
        let now = Instant::now();
        for entries in self.0.lock().unwrap().values_mut() {
            let last = entries.len().saturating_sub(1);
            for entry in &mut entries[..last] {
                entry.until.get_or_insert(now);
            }
        }
    }

    /// The most that may be in flight of calls that arrive now; `None`: any number.
    pub(crate) fn most(&self, key: &str) -> Option<u32> {
        let since = Instant::now() - ADMITTED_BEFORE;
        self.highest(key, |entry| entry.until.is_none_or(|until| until >= since))
    }

    /// The highest that was ever in force.
    pub(crate) fn ever(&self, key: &str) -> Option<u32> {
        self.highest(key, |_| true)
    }

    fn highest(&self, key: &str, is_asked: impl Fn(&InForce) -> bool) -> Option<u32> {
        let all = self.0.lock().unwrap();
        let entries = all.get(key)?.iter().filter(|entry| is_asked(entry));
        entries
            .map(|entry| entry.limit)
            .try_fold(0, |most, limit| limit.map(|limit| most.max(limit)))
    }
}

/// Every key that a policy of ours can limit.
fn keys() -> Vec<String> {
    let mut keys = vec!["gateway".to_owned()];
    keys.extend(["stub", "storm", "flap"].map(|upstream| format!("upstream/{upstream}")));
    for route in ROUTES {
        keys.push(format!("route/{route}"));
        keys.push(format!("route/{route}/stream"));
        keys.extend(
            TENANTS
                .iter()
                .map(|tenant| format!("route/{route}/tenant/{tenant}")),
        );
    }
    keys.extend(TENANTS.iter().map(|tenant| format!("tenant/{tenant}")));
    keys.push("tenant/_unknown".to_owned());
    keys
}

fn set(limits: &mut Limits, key: String, limit: u64) -> u64 {
    limits.insert(key, u32::try_from(limit).unwrap());
    limit
}

/// A policy of random numbers in which nothing contradicts itself.
pub(crate) fn policy(random: &mut Random, upstream: &str, troubled: &Troubled) -> Pushed {
    let mut limits = Limits::new();
    let capacity = set(&mut limits, "gateway".to_owned(), random.between(16, 40));
    let shared = set(
        &mut limits,
        "upstream/stub".to_owned(),
        random.between(10, 35),
    );
    let unknown = set(
        &mut limits,
        "tenant/_unknown".to_owned(),
        random.between(1, 6),
    );
    let mut text = format!(
        "schema = 1\n[gateway]\ncapacity = {capacity}\n[gateway.http]\nwrite_stall = \"400ms\"\n\
         body_idle_timeout = \"400ms\"\nheader_timeout = \"1s\"\n\
         [identify]\n\
         by = [{{ header = {{ name = \"x-tenant-id\", trust = [\"127.0.0.0/8\"] }} }}]\n\
         unknown = \"shared\"\nunknown_limit = {unknown}\n\
         [upstreams.stub]\nendpoints = [\"{upstream}\"]\nlimit = {shared}\n"
    );
    text += &troubled_text(random, troubled, &mut limits);
    for tenant in TENANTS {
        // Now and then one is gone, and its callers are unknown.
        if random.one_in(6) {
            set(&mut limits, format!("tenant/{tenant}"), 0);
            continue;
        }
        let limit = set(
            &mut limits,
            format!("tenant/{tenant}"),
            random.between(1, 15),
        );
        text += &format!("[tenants.{tenant}]\nlimit = {limit}\n");
    }
    for route in ROUTES {
        let low = u64::from(!random.one_in(20));
        let limit = set(
            &mut limits,
            format!("route/{route}"),
            random.between(low, 12),
        );
        text += &route_text(random, route, limit, &mut limits);
    }
    Pushed { text, limits }
}

/// The upstreams in trouble; their rules stay, so that what they do adds up over policies.
fn troubled_text(random: &mut Random, troubled: &Troubled, limits: &mut Limits) -> String {
    let mut limit = |upstream: &str| {
        set(
            limits,
            format!("upstream/{upstream}"),
            random.between(6, 20),
        )
    };
    let (storm, flap) = (limit("storm"), limit("flap"));
    let [one, other] = troubled.flap;
    format!(
        "[upstreams.storm]\nendpoints = [\"http://{}\"]\nlimit = {storm}\n\
         [upstreams.flap]\nendpoints = [\"http://{one}\", \"http://{other}\"]\nlimit = {flap}\n\
         breaker = {{ calls = 10, open = \"200ms\", probes = 2 }}\n",
        troubled.storm
    )
}

fn route_text(random: &mut Random, route: &str, limit: u64, limits: &mut Limits) -> String {
    // Seven routes of at most 12 with a sixth of it reserved fit into any capacity.
    let reserved = random.between(0, limit / 6);
    let mut more = String::new();
    if random.one_in(2) && limit > 0 {
        let most = random.between(1, limit);
        for tenant in TENANTS {
            set(limits, format!("route/{route}/tenant/{tenant}"), most);
        }
        more += &format!("tenant_limit = {most}\n");
    }
    match route {
        "heads" => more += "hold_until = \"headers\"\n",
        "line" => more += &format!("queue = {}\nqueue_wait = \"50ms\"\n", random.between(1, 9)),
        "live" => {
            let most = set(
                limits,
                format!("route/{route}/stream"),
                random.between(1, 5),
            );
            more += &format!("stream = {{ limit = {most}, idle = \"500ms\", max_age = \"2s\" }}\n");
        }
        _ => {}
    }
    // What is judged and not enforced is no limit of the route's.
    if route == "b" && random.one_in(3) {
        let mode = random.pick(&["off", "shadow"]);
        more += &format!("mode = \"{mode}\"\n");
        limits.remove(&format!("route/{route}"));
        for tenant in TENANTS {
            limits.remove(&format!("route/{route}/tenant/{tenant}"));
        }
    }
    if random.one_in(3) {
        more += &format!("candidate = {}\n", random.between(1, 12));
    }
    let class = random.pick(&["critical", "standard", "sheddable"]);
    let (upstream, retry) = match route {
        "storm" => ("storm", troubled::RETRY),
        "flap" => ("flap", "attempts = 2\n"),
        _ => ("stub", "attempts = 2\n"),
    };
    format!(
        "[[routes]]\nid = \"{route}\"\npath = \"/{route}\"\nupstream = \"{upstream}\"\n\
         class = \"{class}\"\n[routes.compartment]\nlimit = {limit}\nreserved = {reserved}\n\
         max_hold = \"2s\"\n{more}\
         [routes.timeout]\nattempt = \"600ms\"\ntotal = \"2s\"\nbody_idle = \"400ms\"\n\
         [routes.retry]\n{retry}"
    )
}
