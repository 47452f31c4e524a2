import { limit, type UseSpec, useOf } from '../../policy/limits/define.ts'

/**
 * How many items of a step run at once is a limit of that concurrency, with a budget for each step of each flow. So the
 * items wait like all others, and nothing wakes the flow between them.
 */
export function atOnce(flow: string, step: string, most: number): UseSpec<never> {
  return useOf(limit(`at once ${most}`, { concurrency: most }).key(`${flow}/${step}`))
}
