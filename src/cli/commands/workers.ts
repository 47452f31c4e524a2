import type { Command } from 'commander'
import type { TaskView } from '../../engine/api/tasks.ts'
import type { WorkerView } from '../../engine/api/workers.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import { type Column, tableOf } from '../table.ts'
import { addViewOptions, show, type ViewFlags } from '../view.ts'
import { inWords } from '../words.ts'

const EXITS = `
Exit code: 0; 1 when there is no such store; 2 for a wrong option.`

/** Adds `sluice workers` and `sluice tasks`. */
export function registerWorkers(program: Command): void {
  const workers = program.command('workers').description('the processes that run jobs, and what each of them runs')
  addViewOptions(workers)
    .addHelpText('after', EXITS)
    .action((flags: ViewFlags) =>
      show(flags, async (store) => {
        const { WorkersApi } = await import('../../engine/api/workers.ts')
        const found = await new WorkersApi({ store: async () => store }).list()
        const nowMs = store.nowUs() / 1000
        return {
          data: found,
          lines: (paint) =>
            found.length === 0
              ? ['No worker is on record.']
              : tableOf(
                  WORKERS,
                  found.flatMap((each) => rows(each, nowMs)),
                  paint,
                ),
        }
      }),
    )
  const tasks = program.command('tasks').description('the tasks of a store, their jobs by state, and who lists them')
  addViewOptions(tasks)
    .addHelpText('after', EXITS)
    .action((flags: ViewFlags) =>
      show(flags, async (store) => {
        const { TasksApi } = await import('../../engine/api/tasks.ts')
        const found = await new TasksApi({ store: async () => store }).list()
        return {
          data: found,
          lines: (paint) => (found.length === 0 ? ['No task is known.'] : tableOf(TASKS, found.map(taskRow), paint)),
        }
      }),
    )
}

const WORKERS: readonly Column[] = [
  { head: 'worker' },
  { head: 'host' },
  { head: 'queues' },
  { head: 'running', right: true },
  { head: 'joined', right: true },
  { head: 'job' },
  { head: 'task' },
  { head: 'for', right: true },
]

/** One row for the worker, and one for each further job that it runs. */
function rows({ id, name, host, pid, queues, slots, alive, joinedAt, running }: WorkerView, nowMs: number): string[][] {
  const where = host === null ? '' : pid === null ? host : `${host}:${pid}`
  const busy = `${running.length}${slots === null ? '' : ` of ${slots}`}`
  const head = [
    name ?? `engine ${id}`,
    where,
    queues.join(', '),
    alive ? busy : 'gone',
    `${inWords(nowMs - joinedAt.getTime())} ago`,
  ]
  const jobs = running.map((job) => [job.id, job.task, inWords(nowMs - job.since.getTime()).replace('now', '0 ms')])
  const [first = ['', '', ''], ...rest] = jobs
  return [[...head, ...first], ...rest.map((job) => ['', '', '', '', '', ...job])]
}

const TASKS: readonly Column[] = [
  { head: 'task' },
  { head: 'waiting', right: true },
  { head: 'later', right: true },
  { head: 'running', right: true },
  { head: 'completed', right: true },
  { head: 'failed', right: true },
  { head: 'workers', right: true },
]

function taskRow({ name, jobs, workers }: TaskView): string[] {
  const later = jobs.scheduled + jobs.retryable + jobs.pending
  return [name, ...[jobs.available, later, jobs.active, jobs.completed, jobs.discarded, workers].map(groupDigits)]
}
