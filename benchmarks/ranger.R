# Answers commands from standard input, one line each, so that only the call to
# ranger() or predict() is timed. Tables come from binary files (see rivals.py).
suppressPackageStartupMessages(library(ranger))

read_table <- function(folder) {
  shape <- scan(file.path(folder, "shape.txt"), quiet = TRUE)
  read <- function(name, what, count) {
    size <- 4L
    readBin(file.path(folder, name), what, count, size)
  }
  numbers <- matrix(read("numbers.bin", "numeric", shape[1] * shape[2]), shape[1])
  if (shape[2] > 0) colnames(numbers) <- paste0("x", seq_len(shape[2]))
  labels <- factor(read("labels.bin", "integer", shape[1]), levels = 0:1)
  if (shape[3] == 0) return(list(x = numbers, y = labels))
  levels <- matrix(read("levels.bin", "integer", shape[1] * shape[3]), shape[1])
  columns <- as.data.frame(numbers)
  for (j in seq_len(shape[3])) columns[[paste0("c", j)]] <- factor(levels[, j], levels = 0:31)
  list(x = columns, y = labels)
}

seconds <- function(call) {
  gc()
  start <- proc.time()[["elapsed"]]
  force(call)
  proc.time()[["elapsed"]] - start
}

answer <- function(value) {
  cat(format(value, digits = 10), "\n", sep = "")
  flush(stdout())
}

train <- NULL
queries <- NULL
forest <- NULL
input <- file("stdin", "r")
while (length(line <- readLines(input, n = 1)) > 0) {
  words <- strsplit(line, " ", fixed = TRUE)[[1]]
  if (words[1] == "quit") break
  if (words[1] == "train") {
    train <- read_table(words[2])
    answer(nrow(train$x))
  } else if (words[1] == "queries") {
    queries <- read_table(words[2])
    answer(nrow(queries$x))
  } else if (words[1] == "fit") {
    forest <- NULL
    answer(seconds(forest <- ranger(
      x = train$x, y = train$y, num.trees = as.integer(words[2]),
      mtry = as.integer(words[3]), probability = TRUE, min.node.size = 1,
      # "order" fails on a matrix, which has no factors to order
      respect.unordered.factors = if (is.data.frame(train$x)) "order" else "ignore", oob.error = FALSE,
      num.threads = as.integer(words[4]), seed = 1, verbose = FALSE
    )))
  } else if (words[1] == "nodes") {
    answer(mean(lengths(forest$forest$split.varIDs)))
  } else if (words[1] == "predict") {
    spent <- seconds(result <- predict(
      forest, data = queries$x, num.threads = as.integer(words[3]), verbose = FALSE
    ))
    writeBin(as.numeric(result$predictions[, "1"]), words[2])
    answer(spent)
  }
}
