//! The interpreter of a rule's actions.

use super::rounds::Detour;
use super::{Effect, MAX_TASKS, ServerCore, Task, Then, Wait};
use crate::script::{Action, Repeat};
use std::time::Duration;

/// How a task goes on after an action.
pub(super) enum Flow {
    Next,
    Park(Wait),
}

impl ServerCore {
    /// Runs a task until it waits or ends.
    pub(super) fn run(&mut self, task: Task) {
        self.depth += 1;
        self.run_on(task);
        self.depth -= 1;
    }

    fn run_on(&mut self, mut task: Task) {
        while let Some(mut action) = task.actions.pop_front() {
            self.render(&task, &mut action);
            let flow = self.act(&mut task, action);
            if self.ended {
                return;
            }
            if let Flow::Park(wait) = flow
                && self.tasks.len() < MAX_TASKS
            {
                if let Wait::Timer(after) = wait {
                    self.effect(Effect::Timer { id: task.id, after });
                }
                self.parked(&task);
                task.wait = Some(wait);
                self.tasks.insert(task.id, task);
                return;
            }
        }
        self.finish(task);
    }

    /// The actions are through (or given up): what follows them.
    pub(super) fn finish(&mut self, mut task: Task) {
        match std::mem::replace(&mut task.then, Then::Nothing) {
            Then::Nothing => {}
            Then::Answer => {
                if !task.answered && !task.cancelled {
                    match self.detour(&mut task) {
                        Detour::None => self.give_faithful(&mut task),
                        Detour::Ask(ask) => {
                            task.then = Then::Answer;
                            task.actions.push_front(Action::InputRequired(ask));
                            return self.run(task);
                        }
                        Detour::Done => {}
                    }
                }
            }
            Then::Look(request) => {
                if !task.answered {
                    self.look(&request);
                }
            }
            Then::Endpoint => {
                if !task.answered {
                    self.send_endpoint(&mut task);
                }
            }
            Then::Give(answer) => self.give_late(&task, *answer),
            Then::Exit(code) => return self.exit(code),
        }
        if task.expired {
            self.not_found(&task);
        }
        if let Some(batch) = task.scope.batch {
            self.leave_batch(batch);
        }
        if let Some(exchange) = task.scope.exchange {
            self.leave(exchange, &task);
        }
    }

    fn act(&mut self, task: &mut Task, action: Action) -> Flow {
        let http = !self.is_stdio();
        match action {
            Action::Default => {
                if let Then::Look(_) = task.then {
                    if let Then::Look(request) = std::mem::replace(&mut task.then, Then::Nothing)
                        && !task.answered
                    {
                        self.look(&request);
                    }
                } else if matches!(task.then, Then::Endpoint) {
                    self.send_endpoint(task);
                } else if !task.cancelled {
                    match self.detour(task) {
                        Detour::None => self.give_faithful(task),
                        Detour::Ask(ask) => {
                            task.actions.push_front(Action::Default);
                            task.actions.push_front(Action::InputRequired(ask));
                        }
                        Detour::Done => {}
                    }
                }
            }
            Action::Respond(result) => self.respond_with(task, result),
            Action::Error(error) => self.error_with(task, error),
            Action::Drop => self.drop_answer(task),
            Action::HoldUntil(until) => {
                if let Some(wait) = self.hold(task, until) {
                    return Flow::Park(wait);
                }
            }
            Action::Release(release) => self.release_held(&release.0),
            Action::Amend(amend) => self.amend(task, &amend),
            Action::Mangle(mangle) => self.mangle(task, mangle),
            Action::Duplicate => self.duplicate(task),
            Action::DelayMs(ms) => return Flow::Park(Wait::Timer(Duration::from_millis(ms))),
            Action::Notify(own) => self.notify(task, own),
            Action::Request(own) => self.own_request(task, own),
            Action::Progress(times) => self.progress(task, times),
            Action::Batch(messages) => self.batch(task, &messages),
            Action::Log(log) => self.log(task, &log),
            Action::Raw(raw) => self.raw(task, raw.0),
            Action::Repeat(repeat) => Self::repeat(task, repeat),
            Action::SetState(states) => {
                for (machine, state) in states.0 {
                    self.set_state(machine, state, &task.scope);
                }
            }
            Action::Count(name) => self.count_up(name),
            Action::AddTool(_)
            | Action::RemoveTool(_)
            | Action::ChangeTool(_)
            | Action::AddResource(_)
            | Action::RemoveResource(_)
            | Action::AddTemplate(_)
            | Action::RemoveTemplate(_)
            | Action::AddPrompt(_)
            | Action::RemovePrompt(_)
            | Action::ChangeServer(_) => self.change(action),
            Action::Announce(kind) => self.announce(task, kind),
            Action::ResourceUpdated(uri) => self.resource_updated(task, &uri),
            Action::InputRequired(ask) => return self.input_required(task, ask),
            Action::RunAsTask(script) => self.run_as_job(task, script),
            Action::RequestTask(errand) => return self.request_task(task, errand),
            Action::MoveTasks(to) => self.move_jobs(task, to),
            Action::EndSubscriptions(how) => self.end_subscriptions(how),
            Action::LeaveOut(members) => {
                if let Some(request) = &mut task.request {
                    request.leave_out.extend(members);
                }
            }
            Action::Stdout(_)
            | Action::StdoutBytes(_)
            | Action::RepeatStdout(_)
            | Action::Stderr(_)
            | Action::StderrBytes(_)
            | Action::SplitEvery(_)
            | Action::SplitAt(_)
            | Action::SplitCharacters
            | Action::CutAt(_)
            | Action::WriteRest
            | Action::MergeNext(_)
            | Action::Crlf
            | Action::CrOnly
            | Action::NoNewline
            | Action::BlankLines(_)
            | Action::Pretty
            | Action::AsciiOnly
            | Action::PadTo(_)
            | Action::ByteOrderMark
            | Action::InvalidUtf8
            | Action::CloseStdout
            | Action::CloseStderr
            | Action::CloseStdin
            | Action::StopReading
            | Action::StopReadingAfter(_)
            | Action::ResumeReading
            | Action::Exit(_)
            | Action::Die(_) => {
                if !http {
                    self.act_stdio(action);
                }
            }
            Action::Stall if !http => self.drop_answer(task),
            Action::Status(_)
            | Action::Answers(_)
            | Action::CutStream(_)
            | Action::Reset
            | Action::Stall
            | Action::ExpireSession
            | Action::CloseGetStream
            | Action::SseComment(_)
            | Action::RawBody(_)
            | Action::Reply(_)
            | Action::Cut(_)
            | Action::Pieces(_)
            | Action::RawResponse(_)
            | Action::SseEvent(_)
            | Action::SseStyle(_)
            | Action::KeepOpen
            | Action::AnswerOn(_)
            | Action::ChangeSession(_) => {
                if http {
                    self.act_http(task, action);
                }
            }
        }
        Flow::Next
    }

    /// One round, and what is left of the repetition after it.
    fn repeat(task: &mut Task, mut repeat: Repeat) {
        if repeat.done == 0 {
            repeat.outer = task.round;
        }
        if repeat.done >= repeat.times {
            task.round = repeat.outer;
            return;
        }
        repeat.done += 1;
        task.round = repeat.done;
        let round = repeat.actions.clone();
        task.actions.push_front(Action::Repeat(repeat));
        for action in round.into_iter().rev() {
            task.actions.push_front(action);
        }
    }
}
