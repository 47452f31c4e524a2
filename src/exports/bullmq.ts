/** Budgets in front of BullMQ: a processor that starts jobs within the limits of a limiter. */
import '../base/supported-node.ts'
export { withBudgets, type BudgetedJob, type BudgetedProcessor, type BudgetOptions } from '../bridge/bullmq.ts'
