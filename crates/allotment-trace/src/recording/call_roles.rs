//! What each call of a stack is for, so that a view shows the one that says where memory comes from.
//!
//! A stack begins with the unwinder that walked it and the allocator that asked for it, and ends with the start of a thread.
//! Between, a framework dispatches: PyTorch has thirty calls between a line of Python and the allocator. None of them
//! says what the memory is for. They are folded, never dropped: each view can show the whole stack.
//!
//! The rules are tables: the first that fits a call says its role.

use CallRole::{Library, Machinery, Node, Operator};

use super::{StackFrame, StackId, Stacks, TextId};

/// What a call of a stack is for. The first role is the one that says most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallRole {
    /// A script of the program: a Python file that no package has.
    Script,
    /// A node of a framework's graph, which stands for a call of the program that is over: `BmmBackward0` of a backward pass.
    Node,
    /// Other code of the program.
    Program,
    /// A library whose call says what is done: `torch/nn/functional.py`.
    Library,
    /// An operator of a framework, which libraries call.
    Operator,
    /// The unwinder, the allocator, a runtime or a dispatcher: every stack has it.
    Machinery,
}

/// A function whose name begins and ends with these, parameters left out. The name between them is the one that is shown.
type FunctionRule = (&'static str, &'static str, CallRole);

const FUNCTIONS: &[FunctionRule] = &[
    // PyTorch: the unwinder and the allocator.
    ("torch::unwind::", "", Machinery),
    ("torch::CapturedTraceback::", "", Machinery),
    ("torch::cuda::", "", Machinery),
    // The backward pass: a node for each operator of the forward pass. Its functional half may carry another node's name,
    // since linkers merge equal functions.
    ("torch::autograd::generated::details::", "", Machinery),
    ("torch::autograd::generated::", "_apply_functional", Machinery),
    ("torch::autograd::generated::", "::apply", Node),
    ("torch::autograd::Engine::", "", Machinery),
    ("torch::autograd::Node::", "", Machinery),
    ("torch::autograd::", "::apply", Node),
    ("torch::autograd::InputBuffer::", "", Library),
    ("torch::autograd::", "", Machinery),
    ("torch::ADInplaceOrView::", "", Machinery),
    ("torch::jit::", "", Library),
    ("torch::inductor::", "", Library),
    ("torch::", "", Library),
    // The dispatcher, and the operators behind it.
    ("at::_ops::empty", "", Machinery),
    ("at::_ops::", "::call", Operator),
    ("at::_ops::", "", Machinery),
    ("at::redispatch::", "", Machinery),
    ("at::detail::", "", Machinery),
    ("at::cuda::", "", Operator),
    ("at::", "", Machinery),
    ("dispatch_cutlass", "", Machinery),
    ("c10d::", "", Library),
    ("c10::", "", Machinery),
    ("pybind11::", "", Machinery),
    ("THPVariable_", "", Machinery),
    ("THPFunction_", "", Machinery),
    // The interpreter of Python.
    ("_Py", "", Machinery),
    ("Py_", "", Machinery),
    ("PyArg_", "", Machinery),
    ("PyCFunction", "", Machinery),
    ("PyCMethod", "", Machinery),
    ("PyDescr_", "", Machinery),
    ("PyEval_", "", Machinery),
    ("PyFunction_", "", Machinery),
    ("PyIter_", "", Machinery),
    ("PyMethod_", "", Machinery),
    ("PyNumber_", "", Machinery),
    ("PyObject_", "", Machinery),
    ("PyRun_", "", Machinery),
    ("PyType_", "", Machinery),
    ("PyVectorcall_", "", Machinery),
    ("cfunction_", "", Machinery),
    ("method_vectorcall", "", Machinery),
    ("pymain_", "", Machinery),
    ("run_eval_code_obj", "", Machinery),
    ("run_mod", "run_mod", Machinery),
    ("slot_tp_", "", Machinery),
    ("vectorcall_", "", Machinery),
    // Rust, and this library.
    ("allotment::", "", Machinery),
    ("allotment_suballoc::", "", Machinery),
    ("allotment_trace::", "", Machinery),
    ("backtrace::", "", Machinery),
    ("core::", "", Machinery),
    ("alloc::", "", Machinery),
    ("std::", "", Machinery),
    ("test::", "", Machinery),
    ("__rust", "", Machinery),
    ("rust_begin_unwind", "", Machinery),
    ("rust_eh_personality", "", Machinery),
    ("rust_panic", "rust_panic", Machinery),
    ("rayon_core::", "", Machinery),
    ("rayon::", "", Machinery),
    ("tokio::runtime::", "", Machinery),
    // The system.
    ("_Unwind_", "", Machinery),
    ("__clone", "", Machinery),
    ("clone3", "clone3", Machinery),
    ("__libc_", "", Machinery),
    ("__pthread", "", Machinery),
    ("pthread_", "", Machinery),
    ("start_thread", "", Machinery),
    ("_start", "_start", Machinery),
    ("??", "", Machinery),
];

/// Parts of the paths of libraries and of runtimes. A path begins with one that has no separator before it.
const PLACES: &[(&str, CallRole)] = &[
    ("/torch/nn/modules/module.py", Machinery),
    ("/torch/utils/_contextlib.py", Machinery),
    ("/torch/_dynamo/", Machinery),
    ("/torch/autograd/", Library),
    ("/torch/nn/", Library),
    ("/torch/optim/", Library),
    ("/torch/utils/", Library),
    ("/torch/_", Library),
    ("/torch/cuda/", Library),
    ("/torch/distributed/", Library),
    ("/torch/functional.py", Library),
    ("/site-packages/", Library),
    ("/dist-packages/", Library),
    ("/lib/python", Library),
    ("/<frozen ", Machinery),
    ("/rustc/", Machinery),
    ("/.cargo/registry/", Library),
];

impl CallRole {
    /// Returns what a call is for, by its function and its place, of which either may be empty.
    ///
    /// ```
    /// use allotment_trace::recording::CallRole;
    ///
    /// let role = |function, place| CallRole::of(function, place);
    /// assert_eq!(role("forward", "/home/me/train.py:9"), CallRole::Script);
    /// assert_eq!(role("linear", "/usr/lib/python3/dist-packages/torch/nn/functional.py:12"), CallRole::Library);
    /// assert_eq!(role("torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)", ""), CallRole::Node);
    /// assert_eq!(role("torch::unwind::unwind()", ""), CallRole::Machinery);
    /// assert_eq!(role("game::sky::load", "src/sky.rs:30"), CallRole::Program);
    /// ```
    #[must_use]
    pub fn of(function: &str, place: &str) -> Self {
        let python = is_python(place);
        if !python {
            if let Some(&(.., role)) = rule_of(bare(function)) {
                return role;
            }
        }
        let fits = |part: &str| {
            has_part(place, part) || part.strip_prefix('/').is_some_and(|part| place.starts_with(part))
        };
        match PLACES.iter().find(|(part, _)| fits(part)) {
            Some(&(_, role)) => role,
            None if python => Self::Script,
            None if function.is_empty() => Machinery,
            None => Self::Program,
        }
    }
}

/// Returns the name of a function as lists show it: without its parameters and those of its types, and without what all of
/// its kind begin and end with.
///
/// ```
/// use allotment_trace::recording::short_function;
///
/// let node = "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)";
/// assert_eq!(short_function(node), "BmmBackward0");
/// assert_eq!(short_function("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"), "mm");
/// assert_eq!(short_function("game::Sky<f32>::load::{{closure}}"), "game::Sky<f32>::load::{{closure}}");
/// assert_eq!(short_function("void (anonymous namespace)::load<int>(int)"), "(anonymous namespace)::load<int>");
/// ```
#[must_use]
pub fn short_function(function: &str) -> &str {
    let name = bare(function);
    match rule_of(name) {
        Some(&(begin, end, Node | Operator)) if !end.is_empty() => {
            let inner = name.strip_prefix(begin).and_then(|name| name.strip_suffix(end));
            inner.filter(|inner| !inner.is_empty()).unwrap_or(name)
        }
        _ => name,
    }
}

fn rule_of(name: &str) -> Option<&'static FunctionRule> {
    // `<game::Sky as core::fmt::Debug>::fmt` is of the type.
    let name = name.trim_start_matches(['<', '&']);
    FUNCTIONS.iter().find(|(begin, end, _)| name.starts_with(begin) && name.ends_with(end))
}

/// Returns a function without its parameters and its result: all before the bracket that ends the name, from the last space on.
/// Brackets and spaces that are a part of it, as in `(anonymous namespace)` and `operator()`, stay.
fn bare(function: &str) -> &str {
    let (mut angles, mut brackets, mut from) = (0_u32, 0_u32, 0);
    for (at, c) in function.char_indices() {
        let before = &function[from..at];
        match c {
            '<' if !before.ends_with("operator") && !before.ends_with("operator<") => angles += 1,
            // An arrow ends nothing.
            '>' if !before.ends_with('-') => angles = angles.saturating_sub(1),
            '(' if angles == 0 && brackets == 0 && !before.is_empty() => {
                let stays = function[at..].starts_with("(anonymous") || before.ends_with("operator");
                if !stays {
                    return before;
                }
                brackets += 1;
            }
            '(' if angles == 0 => brackets += 1,
            ')' if angles == 0 => brackets = brackets.saturating_sub(1),
            ' ' if angles == 0 && brackets == 0 && !before.ends_with("operator") => from = at + 1,
            _ => {}
        }
    }
    &function[from..]
}

/// Files of Python, and what it calls the lines of a notebook, of the command line and of standard input.
fn is_python(place: &str) -> bool {
    place.ends_with(".py")
        || place.contains(".py:")
        || ["<ipython-input-", "<stdin>", "<string>"].iter().any(|begin| place.starts_with(begin))
}

/// Returns true if a path has a part, with either separator.
fn has_part(place: &str, part: &str) -> bool {
    place.contains(part) || (place.contains('\\') && place.replace('\\', "/").contains(part))
}

impl Stacks {
    /// Returns the call of a stack that says where its memory comes from: of the calls with the [role](CallRole) that says
    /// most, the innermost; of operators the outermost, since operators call each other. Where all are machinery, the
    /// innermost call. `None` for [`StackId::NONE`].
    ///
    /// Cost: one step a call. `role` says what each call is for, by its number.
    pub fn telling(&self, stack: StackId, role: impl Fn(StackId) -> CallRole) -> Option<StackId> {
        let mut best: Option<(CallRole, StackId)> = None;
        for number in self.numbers(stack) {
            let of = role(number);
            match best {
                Some((known, _)) if of > known || (of == known && of != Operator) => {}
                _ => best = Some((of, number)),
            }
        }
        best.map(|(_, number)| number)
    }

    /// Returns the numbers of the calls of a stack, the innermost first.
    pub fn numbers(&self, stack: StackId) -> impl Iterator<Item = StackId> {
        let is_known = |&number: &StackId| self.frame(number).is_some();
        core::iter::successors(Some(stack).filter(is_known), move |&number| {
            self.frame(number).map(|frame| frame.parent).filter(is_known)
        })
    }

    /// Returns the role of each call, that of number 1 first. Cost: some hundred nanoseconds a call.
    #[must_use]
    pub fn roles<'a>(&self, text: impl Fn(TextId) -> &'a str) -> Vec<CallRole> {
        let role = |frame: &StackFrame| CallRole::of(text(frame.function), text(frame.place));
        self.frames().iter().map(role).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_lose_their_parameters_and_results() {
        for (function, short) in [
            ("main", "main"),
            ("", ""),
            ("load(int)", "load"),
            ("std::vector<int, std::allocator<int> > game::load<int>(char const*)", "game::load<int>"),
            ("_object* (anonymous namespace)::wrap(_object*)", "(anonymous namespace)::wrap"),
            ("Node::operator()(int)", "Node::operator()"),
            ("operator new(unsigned long)", "operator new"),
            ("Node::operator<(int)", "Node::operator<"),
            ("Node::operator<<(int)", "Node::operator<<"),
            ("Node::operator->()", "Node::operator->"),
            ("game::run::<fn() -> i32, game::A>", "game::run::<fn() -> i32, game::A>"),
            ("<game::Map<fn() -> i32> as game::Load>::load", "<game::Map<fn() -> i32> as game::Load>::load"),
            (
                "(anonymous namespace)::f()::{lambda(int)#1}::operator()(int) const",
                "(anonymous namespace)::f",
            ),
            ("<game::Sky as core::fmt::Debug>::fmt", "<game::Sky as core::fmt::Debug>::fmt"),
            ("game::load::{{closure}}", "game::load::{{closure}}"),
            ("at::_ops::mm::call(at::Tensor const&)", "mm"),
            ("ü(", "ü"),
        ] {
            assert_eq!(short_function(function), short, "{function}");
        }
    }

    #[test]
    fn the_calls_of_real_stacks_have_the_roles_that_a_reader_would_give_them() {
        use CallRole::{Program, Script};
        for (function, place, role) in [
            ("torch::unwind::unwind()", "", Machinery),
            (
                "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",
                "",
                Machinery,
            ),
            ("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)", "", Operator),
            ("at::(anonymous namespace)::create_out(c10::ArrayRef<long>)", "RegisterCUDA_0.cpp", Machinery),
            (
                "torch::autograd::generated::ReshapeAliasBackward0_apply_functional(std::array<bool, 1ul>)",
                "",
                Machinery,
            ),
            (
                "torch::autograd::generated::ViewBackward0::apply(std::vector<at::Tensor>&&)",
                "Functions.cpp",
                Node,
            ),
            (
                "torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
                "",
                Machinery,
            ),
            ("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)", "", Node),
            ("std::error_code::default_error_condition() const", "", Machinery),
            ("_PyEval_EvalFrameDefault", "", Machinery),
            (
                "void at::native::gpu_reduce_kernel<float, 4, at::native::MeanOps<float> >(at::TensorIterator&)",
                "",
                Machinery,
            ),
            (
                "auto at::native::_efficient_attention(at::Tensor const&)::{lambda()#1}::operator()() const",
                "",
                Machinery,
            ),
            ("forward", "train.py:9", Script),
            ("forward", "/home/me/torch/train.py:9", Script),
            ("linear", "torch/nn/functional.py:9", Library),
            ("<module>", "<ipython-input-3-0a1b>:5", Script),
            ("run_model(Model&)", "model.cpp:3", Program),
            ("rust_game::load", "src/load.rs:3", Program),
            ("_start_engine", "", Program),
            ("_call_impl", "torch/nn/modules/module.py:1790", Machinery),
            ("step", r"C:\Python\Lib\site-packages\torch\optim\adam.py:248", Library),
            ("helper", "/usr/lib/python3.12/contextlib.py:5", Library),
            ("<alloc::boxed::Box<F> as core::ops::function::FnOnce<A>>::call_once", "", Machinery),
            ("<game::Sky as core::fmt::Debug>::fmt", "src/sky.rs:3", Program),
            ("game::main", "src/main.rs:3", Program),
            ("main", "", Program),
            ("serde::ser", "/home/a/.cargo/registry/src/index/serde-1/src/ser.rs:1", Library),
            ("", "", Machinery),
            ("??", "", Machinery),
        ] {
            assert_eq!(CallRole::of(function, place), role, "{function} {place}");
        }
    }
}
