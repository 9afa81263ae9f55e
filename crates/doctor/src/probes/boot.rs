//! `boot`: does the application boot on each request, and was the first request slower than those after it?
//!
//! A framework that is loaded, run once and thrown away pays for its start with every response: 12.5 ms of which 11 went into booting in one profile of Symfony,
//! 3.65 ms against 0.48 ms from a worker that stayed.
//!
//! How it works: a boot delays *every* response of the application, also those that take no work: an error, `OPTIONS`. So the probe requests the page, its head,
//! a path that cannot exist, `OPTIONS` and `/robots.txt` in turns, on a kept connection where there is one. The least time of each counts, less a round trip,
//! which no response can beat. Some of these may be served in front of the application; they show what a response costs without it.
//!
//! * All are fast: nothing boots.
//! * The page is slow, and so is an error or `OPTIONS`: booting (or the same work for every path, which costs as much).
//! * The page is slow, and an error that the application made is fast: the page's own work.
//! * Only the page is slow, and it is not known what made the fast responses: a constant time is suspicious, any other proves nothing.
//!
//! A slow page is never bad by itself; nor is a distant server, a throttling one, or one behind a cache in another city.

mod observe;
mod rules;

#[cfg(test)]
mod tests;

use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::server::Server;

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let seen = observe::observe(context).await;
    let (mut every, first) = (rules::every(&seen), rules::first(&seen));
    if every.verdict == Verdict::Bad {
        // A machine that was busy for a second is not a boot: a finding needs two looks.
        let again = rules::every(&observe::observe(context).await);
        if again.verdict < every.verdict {
            every = again;
        }
    }
    vec![every, first]
}

pub(super) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    match finding {
        rules::EVERY => Some(match server {
            Server::PhpBuiltIn => {
                "php -S runs the script from scratch for each request: run the application in warm workers (Keepwarm's PHP adapter, or FrankenPHP's worker mode, RoadRunner, Swoole)."
            }
            Server::Nginx | Server::Apache => {
                "If PHP runs behind it, keep the application booted in warm workers (Keepwarm's PHP adapter, or FrankenPHP's worker mode, RoadRunner, Swoole), and until then set opcache.enable=1 with opcache.preload. If CGI runs behind it, use FastCGI, or the application's own server."
            }
            Server::Gunicorn | Server::Uvicorn | Server::Granian | Server::Waitress => {
                "Move the setup of each request (settings, clients, connections, templates) to the module level, where it runs once per worker."
            }
            Server::Puma | Server::Unicorn | Server::WebRick => {
                "Set RAILS_ENV=production (or config.enable_reloading = false), so that code is loaded once, and create clients in an initializer."
            }
            Server::Node => {
                "Move the setup of each request to the module level, and set NODE_ENV=production, so that templates are compiled once."
            }
            _ => {
                "Start the application once, and keep it in long-lived workers: loading, configuration and connections then cost nothing per request."
            }
        }),
        rules::FIRST => Some(match server {
            Server::Puma | Server::Unicorn => {
                "Set preload_app! (preload_app true), and send a request through the application before it is put into service."
            }
            Server::Gunicorn => {
                "Use --preload, and send a request through the application before it is put into service."
            }
            _ => {
                "Warm the application before it takes traffic: load it when a worker starts, and send it a request before it is put into service."
            }
        }),
        _ => None,
    }
}
