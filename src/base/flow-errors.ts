/** The errors of flows. */
export const FLOW_ERRORS = {
  'flow.invalid': {
    meaning: 'A flow is not valid: it has no jobs or too many, a unique one, or an option that does not exist.',
    remedy: 'Correct what the message names; nothing was stored.',
  },
  'flow.not_found': {
    meaning: 'The store has no flow with this id: it never existed, or its retention is over.',
    remedy: 'Check the id and the store; lengthen retention to keep flows that have ended longer.',
  },
  'flow.stopped': {
    meaning: 'A job of a flow was cancelled: a job that it waited for did not complete, or the flow ended without it.',
    remedy: 'Check the job that failed. sluice.jobs.retry(id) runs it again and continues the flow.',
  },
  'flow.results_too_large': {
    meaning: 'The results of earlier jobs of a flow are together too large for a later one, which was discarded.',
    remedy: 'Let results be references to data that is stored elsewhere.',
  },
  'graph.invalid': {
    meaning: 'The definition of a graph has faults. The message names them, and the cause is a list with their paths.',
    remedy: 'Correct each fault at its path. sluice workflows check FILE.json shows all of them.',
  },
  'graph.json.invalid': {
    meaning: 'The definition of a graph is not JSON.',
    remedy: 'Correct the text at the place that the message names.',
  },
  'graph.field.unknown': {
    meaning: 'The definition of a graph has a field that does not exist, often a misspelt one.',
    remedy: 'Rename or remove the field.',
  },
  'graph.field.invalid': {
    meaning: 'A field in the definition of a graph is missing, has a value of the wrong form, or excludes another.',
    remedy: 'Give the form that the message names.',
  },
  'graph.name.invalid': {
    meaning: 'A graph or one of its steps has a name that it cannot have.',
    remedy: "Name a graph by lower case words with dots, and a step by a letter, then letters, digits, '-' and '_'.",
  },
  'graph.name.twice': {
    meaning: 'Two steps of a graph, or two fields of its definition, have the same name.',
    remedy: 'Rename one of them. No step can be named input, item, index or flow.',
  },
  'graph.step.unknown': {
    meaning: 'A step of a graph comes after a step that does not exist.',
    remedy: 'Name a step of the same graph.',
  },
  'graph.cycle': {
    meaning: 'Steps of a graph wait for each other in a circle.',
    remedy: 'Remove one of the edges that the message names. A loop needs a workflow or a machine.',
  },
  'graph.path.unknown': {
    meaning: 'A path in the definition of a graph leads to what its step does not see.',
    remedy: 'Begin the path with input, a step of after, or, with each, item or index.',
  },
  'graph.empty': {
    meaning: 'A graph has no steps, or more than 1,000.',
    remedy: 'Give it 1 to 1,000 steps.',
  },
  'flow.conflict': {
    meaning: "A flow with the same key runs already, and onConflict is 'reject'.",
    remedy: "Wait for that flow, or choose 'join' to be handed it.",
  },
  'flow.failed': {
    meaning: 'The awaited flow has failed. The error has the code of the cause as its reason.',
    remedy: 'See the reason; sluice.flows.retry(id) lets the flow go on from where it failed.',
  },
  'flow.cancelled': {
    meaning: 'The awaited flow was cancelled.',
    remedy: 'Nothing, if that was intended; otherwise start it again.',
  },
  'flow.result.timeout': {
    meaning: 'The flow did not end within the timeout given to result(). The flow itself continues.',
    remedy: 'Wait longer, or ask again later.',
  },
  'flow.ended': {
    meaning: 'A signal was sent to a flow that has ended.',
    remedy: 'Start a new flow, or send the signal by key to the one that runs.',
  },
  'flow.inbox_full': {
    meaning: 'A flow has 10,000 signals that it has not asked for.',
    remedy: 'Check why the flow does not ask for them.',
  },
  'flow.timeout': {
    meaning:
      'A flow had not ended when the timeout of its workflow was over. The message names the budget it waits for.',
    remedy: 'Raise timeout or the limit, or start fewer flows.',
  },
  'flow.too_wide': {
    meaning: 'A flow waits for more than 1,000 steps, calls or children at a time.',
    remedy: 'Use flow.map for tasks, or start the work in parts.',
  },
  'flow.items_failed': {
    meaning: 'Some items of a map failed. Its step has their errors, and the results of the others.',
    remedy: 'See the errors in the details of the error. Catch the failure, or let the map collect failures.',
  },
  'flow.too_large': {
    meaning: 'A flow remembers more than 10,000 steps, or more than 16 MiB of results.',
    remedy: 'Return references from steps, and begin a new generation with again(input).',
  },
  'flow.too_deep': {
    meaning: 'Flows have started each other as children over more than 100 levels.',
    remedy: 'Check for a flow that starts itself; use detach for one that outlives it.',
  },
  'flow.strayed': {
    meaning: 'A strict workflow did not ask for steps that it had asked for before.',
    remedy: 'Make the code between steps deterministic; use flow.changed(name) when you change it.',
  },
  'flow.step_unknown': {
    meaning: 'A flow is at a step that this code does not have.',
    remedy: 'Deploy code that has the step, then call sluice.flows.retry(id).',
  },
  'state.invalid': {
    meaning: "The state of a machine's step does not match its schema.",
    remedy: 'Correct the state or the schema; a stored state is checked again by sluice.flows.retry(id).',
  },
  'step.failed': {
    meaning: 'A step of a workflow has used up its attempts. The body may catch it.',
    remedy: 'See the reason; catch the error where the flow should go on, or call sluice.flows.retry(id).',
  },
  'step.timeout': {
    meaning: "One attempt of a step ran longer than the step's timeout and was aborted.",
    remedy: 'Raise timeout, or make the step faster and let it obey step.signal.',
  },
  'step.nested': {
    meaning: 'A step was asked for within the code of another step.',
    remedy: 'Ask for it in the body, before or after that step.',
  },
  'step.name.repeated': {
    meaning: 'Two steps of one name were asked for at the same time, so their results could not be told apart.',
    remedy: 'Give each a name of its own.',
  },
}
